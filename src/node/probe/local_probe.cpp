// SPDX-License-Identifier: Apache-2.0
#include "node/probe/local_probe.hpp"

#include "base/log.hpp"
#include "net/host/async.hpp"
#include "node/runner/spawn.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <system_error>
#include <thread>

namespace exo::node {
namespace {

namespace fs = std::filesystem;

// A child that has closed its output ends at once; one that was killed, too.
constexpr Duration exit_limit = 2s;
constexpr Duration exit_look_interval = 2ms;
constexpr Duration recheck_interval = 1s;

// The child, dead and buried at the latest with this object.
class Child {
public:
    explicit Child(int pid)
        : pid_(pid) {}

    ~Child() {
        if (!status_) {
            (void)kill(-pid_, SIGKILL);
            for (auto const end = net::now() + exit_limit; !has_ended() && net::now() < end;) {
                std::this_thread::sleep_for(1ms);
            }
        }
    }

    Child(Child const&) = delete;
    Child& operator=(Child const&) = delete;

    bool has_ended() {
        int status = 0;
        pid_t const ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_ || (ended < 0 && errno == ECHILD)) {
            status_ = ended == pid_ ? status : 0;
        }
        return status_.has_value();
    }

    // Null while it runs.
    [[nodiscard]] std::optional<int> const& status() const { return status_; }

private:
    int pid_;
    std::optional<int> status_;
};

// Frees the place of the one child, however its coroutine ends.
class Turn {
public:
    Turn(bool& busy, Notify& freed)
        : busy_(busy)
        , freed_(freed) {
        busy_ = true;
    }

    ~Turn() {
        busy_ = false;
        freed_.notify();
    }

    Turn(Turn const&) = delete;
    Turn& operator=(Turn const&) = delete;

private:
    bool& busy_;
    Notify& freed_;
};

class Counted {
public:
    explicit Counted(std::size_t& count)
        : count_(count) {
        ++count_;
    }

    ~Counted() { --count_; }

    Counted(Counted const&) = delete;
    Counted& operator=(Counted const&) = delete;

private:
    std::size_t& count_;
};

// Which files these are: another content has another size or time.
Result<std::string> identity_of(storage::LocalModel const& model) {
    std::string text;
    for (auto const& path : model.paths) {
        std::error_code error;
        auto const bytes = fs::file_size(path, error);
        auto const changed = error ? fs::file_time_type() : fs::last_write_time(path, error);
        if (error) {
            return Error(
                Errc::not_found,
                fmt::format("model file {} is gone: {}", path.string(), error.message())
            );
        }
        text +=
            fmt::format("{}\n{} {}\n", path.string(), bytes, changed.time_since_epoch().count());
    }
    return text;
}

std::vector<std::string>
arguments_for(LocalProbeOptions const& options, storage::LocalModel const& model, Way const& way) {
    auto arguments = options.arguments;
    arguments.emplace_back("--no-ranges"); // First: --probe takes all that follows it.
    arguments.emplace_back("--ranks");
    arguments.push_back(std::to_string(way.ranks));
    arguments.emplace_back("--sharding");
    arguments.emplace_back(way.sharding == model::Sharding::tensor ? "tensor" : "pipeline");
    arguments.emplace_back("--probe");
    for (auto const& path : model.paths) {
        arguments.push_back(path.string());
    }
    return arguments;
}

// All that the child writes, to its end.
asio::awaitable<Result<std::string>> read_all(asio::posix::stream_descriptor& output) {
    std::string text;
    std::array<char, 4096> part{};
    while (true) {
        auto const [error, count] =
            co_await output.async_read_some(asio::buffer(part), net::as_value);
        text.append(part.data(), count);
        if (error) {
            co_return text;
        }
        if (text.size() > LocalProbe::output_bytes_max) {
            co_return Error(Errc::limit, "the probe of the model writes without end");
        }
    }
}

model::ModelCut crashed(Way const& way, int status) {
    model::ModelCut cut{.sharding = way.sharding, .ranks = way.ranks};
    cut.refusal =
        WIFSIGNALED(status)
            ? fmt::format(
                  "llama.cpp crashed when it was tried (signal {}, {})",
                  WTERMSIG(status),
                  strsignal(WTERMSIG(status))
              )
            : fmt::format("llama.cpp ended when it was tried (exit code {})", WEXITSTATUS(status));
    return cut;
}

} // namespace

LocalProbe::LocalProbe(LocalProbeOptions options)
    : options_(std::move(options)) {}

asio::awaitable<Result<model::ModelCut>> LocalProbe::ask(storage::LocalModel model, Way way) {
    auto const identity = identity_of(model);
    if (!identity) {
        co_return identity.error();
    }
    std::string const key =
        fmt::format("{}{} {}", *identity, static_cast<int>(way.sharding), way.ranks);
    if (waiting_ >= waiting_max) {
        co_return Error(Errc::limit, fmt::format("{} questions wait already", waiting_));
    }
    Counted const waiting(waiting_);
    while (busy_) {
        co_await freed_.wait(recheck_interval);
    }
    if (auto const known = verdicts_.find(key); known != verdicts_.end()) {
        co_return known->second;
    }
    Turn const turn(busy_, freed_);
    auto verdict = co_await run(model, way);
    if (verdict) {
        if (verdicts_.size() >= remembered_max) {
            verdicts_.clear();
        }
        verdicts_[key] = *verdict;
    }
    co_return verdict;
}

asio::awaitable<Result<model::ModelCut>>
LocalProbe::run(storage::LocalModel const& model, Way const& way) {
    auto line = make_socket_pair(); // A child has one; this one is not talked to.
    auto pipe = make_pipe();
    if (!line || !pipe) {
        co_return line ? pipe.error() : line.error();
    }
    Spawn const what{
        .executable = options_.executable,
        .arguments = arguments_for(options_, model, way),
        .environment = runner_environment(own_environment()),
    };
    auto const pid = spawn(what, std::move(line->theirs), std::move(pipe->theirs));
    if (!pid) {
        co_return pid.error();
    }
    Child child(*pid);
    auto const executor = co_await asio::this_coro::executor;
    asio::posix::stream_descriptor output(executor, pipe->ours.release());
    auto const deadline = net::now() + options_.limit;
    auto reading = read_all(output);
    auto const read = co_await net::before(deadline, std::move(reading));
    if (!read) {
        co_return Error(
            Errc::timed_out,
            fmt::format(
                "the probe of {} did not end within {} s",
                model.card.model_id.value(),
                options_.limit / 1s
            )
        );
    }
    if (!*read) {
        co_return read->error();
    }
    while (!child.has_ended() && net::now() < deadline) {
        co_await sleep_for(exit_look_interval);
    }
    if (!child.status()) {
        co_return Error(Errc::timed_out, "the probe of the model does not end");
    }
    if (auto verdict = read_probe_output(**read, way)) {
        co_return verdict;
    }
    if (int const status = *child.status(); status != 0) {
        log::warning("probe", "{}: {}", model.card.model_id.value(), crashed(way, status).refusal);
        co_return crashed(way, status);
    }
    co_return read_probe_output(**read, way);
}

} // namespace exo::node
