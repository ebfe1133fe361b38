// SPDX-License-Identifier: Apache-2.0
#include "node/runner/supervisor.hpp"

#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/overloaded.hpp"
#include "ipc/frame.hpp"
#include "node/runner/orphans.hpp"
#include "node/runner/output_lines.hpp"
#include "node/runner/spawn.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <sys/wait.h>
#include <thread>

namespace exo::node {
namespace {

using Clock = std::chrono::steady_clock;
using SystemError = boost::system::error_code;

// What may wait to be written to a runner. One that reads nothing hangs; a prompt of the longest
// context is some MB.
constexpr std::size_t outgoing_bytes_max = ipc::frame_bytes_max + (32u << 20);
// How often a process that should end is looked at, and one that should not.
constexpr Duration look_interval = 10ms;
constexpr Duration idle_look_interval = 1s;
// A runner that has closed its line must end by itself within this.
constexpr Duration silent_exit_limit = 1s;
// What a dead process wrote is read to its end; a child of its own may keep the pipe open longer.
constexpr Duration drain_limit = 500ms;
// For a killed process to vanish, when nobody waits for its report any more.
constexpr Duration reap_limit = 2s;

} // namespace

// The process and all that belongs to it. Its handlers keep it alive until they have run; after
// abandon() they do nothing.
class RunnerSupervisor::Process : public std::enable_shared_from_this<Process> {
public:
    Process(
        asio::any_io_executor executor, SupervisorOptions options, SupervisorCallbacks callbacks
    )
        : options_(std::move(options))
        , callbacks_(std::move(callbacks))
        , line_(executor)
        , output_(executor)
        , timer_(executor)
        , orphans_(options_.orphans_directory) {}

    Result<void> start(ipc::Start const& start);
    Result<void> send(ipc::ToRunner const& message);
    void stop(std::string const& reason);
    void abandon();

    [[nodiscard]] bool running() const { return state_ != State::idle && state_ != State::reaped; }

    [[nodiscard]] std::optional<int> pid() const {
        return running() ? std::optional(pid_) : std::nullopt;
    }

private:
    // starting: nothing was heard yet. ending: asked to end, or beyond hope; no more messages.
    enum class State { idle, starting, running, ending, reaped };

    void read_line();
    void on_bytes(BytesView bytes);
    void dispatch(ipc::FromRunner const& message);
    void started();
    void on_line_end();
    void read_output();
    void write_next();
    void look_later();
    void look();
    void check_deadline(Clock::time_point now);
    void signal(int number) const;
    void end_because(std::string why);
    void report();
    [[nodiscard]] std::string end_text() const;

    SupervisorOptions options_;
    SupervisorCallbacks callbacks_;
    asio::local::stream_protocol::socket line_;
    asio::posix::stream_descriptor output_;
    asio::steady_timer timer_;
    Orphans orphans_;

    State state_ = State::idle;
    int pid_ = 0;
    bool awaits_port_ = false;
    bool stop_asked_ = false;
    // When the next step against a process that does not do what it should is due, and which.
    std::optional<Clock::time_point> deadline_;
    int next_signal_ = SIGKILL;
    std::string why_; // The first reason for its end that we know of.

    ipc::FrameReader reader_;
    std::array<std::uint8_t, 64 * 1024> line_buffer_{};
    bool line_open_ = false;
    std::array<std::uint8_t, 4096> output_buffer_{};
    bool output_open_ = false;
    OutputLines lines_;
    std::deque<Bytes> outgoing_;
    std::size_t outgoing_bytes_ = 0;

    std::optional<int> wait_status_; // Reaped, with this.
    Clock::time_point reaped_at_;
};

// ---- starting

Result<void> RunnerSupervisor::Process::start(ipc::Start const& start) {
    EXO_ASSERT(state_ == State::idle);
    auto line = make_socket_pair();
    auto output = make_pipe();
    if (!line || !output) {
        return line ? output.error() : line.error();
    }
    Spawn what{
        .executable = options_.executable,
        .arguments = options_.arguments,
        .environment = runner_environment(own_environment()),
    };
    what.arguments.emplace_back("--ipc-fd");
    what.arguments.push_back(std::to_string(child_line_descriptor));
    auto const pid = spawn(what, std::move(line->theirs), std::move(output->theirs));
    if (!pid) {
        return pid.error();
    }
    pid_ = *pid;
    state_ = State::starting;
    awaits_port_ = start.world_size > 1;
    deadline_ = Clock::now() + options_.startup_limit;
    if (!options_.orphans_directory.empty()) {
        if (auto const added = orphans_.add(pid_); !added) {
            log::warning("runner", "{}", added.error().text());
        }
    }
    log::info("runner", "started process {} for rank {}", pid_, start.device_rank);
    SystemError error;
    line_.assign(asio::local::stream_protocol(), line->ours.release(), error);
    output_.assign(output->ours.release(), error);
    line_open_ = true;
    output_open_ = true;
    read_line();
    read_output();
    look_later();
    return send(start);
}

// ---- the line

void RunnerSupervisor::Process::read_line() {
    line_.async_read_some(
        asio::buffer(line_buffer_),
        [self = shared_from_this()](SystemError error, std::size_t count) {
            if (!self->line_open_) {
                return;
            }
            if (error) {
                self->on_line_end();
                return;
            }
            self->on_bytes(BytesView(self->line_buffer_).first(count));
            if (self->line_open_) {
                self->read_line();
            }
        }
    );
}

void RunnerSupervisor::Process::on_bytes(BytesView bytes) {
    reader_.feed(bytes);
    while (line_open_) { // A callback may abandon us.
        auto const document = reader_.next();
        if (!document) {
            end_because(fmt::format("the runner sent garbage: {}", document.error().text()));
            on_line_end();
            return;
        }
        if (!*document) {
            return;
        }
        auto const message = ipc::decode_from_runner(**document);
        if (!message) {
            end_because(fmt::format("the runner sent garbage: {}", message.error().text()));
            on_line_end();
            return;
        }
        dispatch(*message);
    }
}

void RunnerSupervisor::Process::dispatch(ipc::FromRunner const& message) {
    // The callbacks may destroy what they belong to; they stay alive while they run.
    auto const callbacks = callbacks_;
    std::visit(
        Overloaded{
            [&](ipc::Listening const& listening) {
                started();
                if (callbacks.on_listening) {
                    callbacks.on_listening(listening.port);
                }
            },
            [&](ipc::StatusChanged const& changed) {
                if (!awaits_port_) {
                    started();
                }
                if (callbacks.on_status) {
                    callbacks.on_status(changed.status);
                }
            },
            [&](ipc::Generated const& generated) {
                if (callbacks.on_event) {
                    callbacks.on_event(generated.task_id, generated.event);
                }
            },
            [&](ipc::Fault const& fault) {
                if (why_.empty()) {
                    why_ = fault.message;
                }
            },
        },
        message
    );
}

void RunnerSupervisor::Process::started() {
    if (state_ == State::starting) {
        state_ = State::running;
        deadline_.reset();
    }
}

// The process has ended, or will have to.
void RunnerSupervisor::Process::on_line_end() {
    line_open_ = false;
    SystemError ignored;
    line_.close(ignored);
    outgoing_.clear();
    if (state_ == State::starting || state_ == State::running) {
        state_ = State::ending;
        deadline_ = Clock::now() + silent_exit_limit;
        next_signal_ = SIGKILL;
    }
    look_later();
}

Result<void> RunnerSupervisor::Process::send(ipc::ToRunner const& message) {
    if (state_ != State::starting && state_ != State::running) {
        return Error(Errc::unavailable, "the runner does not run, or is ending");
    }
    auto frame = ipc::encode(message);
    if (!frame) {
        return frame.error();
    }
    if (outgoing_bytes_ + frame->size() > outgoing_bytes_max) {
        end_because("the runner hangs: it does not read what it is sent");
        return Error(Errc::limit, why_);
    }
    outgoing_bytes_ += frame->size();
    outgoing_.push_back(std::move(*frame));
    if (outgoing_.size() == 1) {
        write_next();
    }
    return {};
}

void RunnerSupervisor::Process::write_next() {
    asio::async_write(
        line_,
        asio::buffer(outgoing_.front()),
        [self = shared_from_this()](SystemError error, std::size_t) {
            if (error || !self->line_open_) {
                return; // The reader sees the end, after the runner's last words.
            }
            self->outgoing_bytes_ -= self->outgoing_.front().size();
            self->outgoing_.pop_front();
            if (!self->outgoing_.empty()) {
                self->write_next();
            }
        }
    );
}

// ---- its output

void RunnerSupervisor::Process::read_output() {
    output_.async_read_some(
        asio::buffer(output_buffer_),
        [self = shared_from_this()](SystemError error, std::size_t count) {
            if (error || !self->output_open_) {
                self->output_open_ = false;
                return;
            }
            for (auto const& text :
                 self->lines_.feed(BytesView(self->output_buffer_).first(count))) {
                log::debug("runner", "{}: {}", self->pid_, text);
            }
            self->read_output();
        }
    );
}

// ---- the end

void RunnerSupervisor::Process::stop(std::string const& reason) {
    if (stop_asked_ || !running()) {
        return;
    }
    stop_asked_ = true;
    log::info("runner", "stopping process {}: {}", pid_, reason);
    if (state_ == State::ending) {
        return;
    }
    (void)send(ipc::Shutdown{});
    state_ = State::ending;
    deadline_ = Clock::now() + options_.shutdown_limit;
    next_signal_ = SIGTERM;
    look_later();
}

// Not to be waited for: it is wrong already.
void RunnerSupervisor::Process::end_because(std::string why) {
    if (why_.empty()) {
        why_ = std::move(why);
    }
    log::warning("runner", "killing process {}: {}", pid_, why_);
    state_ = State::ending;
    deadline_.reset();
    signal(SIGKILL);
    look_later();
}

void RunnerSupervisor::Process::signal(int number) const {
    if (!wait_status_) { // A reaped pid may be another process.
        (void)kill(-pid_, number);
    }
}

void RunnerSupervisor::Process::look_later() {
    Duration wait = idle_look_interval;
    if (state_ == State::ending || wait_status_) {
        wait = look_interval;
    } else if (deadline_) {
        wait = std::clamp<Duration>(*deadline_ - Clock::now(), look_interval, wait);
    }
    timer_.expires_after(wait);
    timer_.async_wait([self = shared_from_this()](SystemError error) {
        if (!error && self->running()) {
            self->look();
        }
    });
}

void RunnerSupervisor::Process::look() {
    auto const now = Clock::now();
    if (!wait_status_) {
        int status = 0;
        pid_t const ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_ || (ended < 0 && errno == ECHILD)) {
            (void)kill(-pid_, SIGKILL); // What it may have started itself.
            wait_status_ = ended == pid_ ? status : 0;
            reaped_at_ = now;
        } else {
            check_deadline(now);
        }
    }
    // What it wrote before its end comes first.
    bool const drained = !line_open_ && !output_open_;
    if (wait_status_ && (drained || now >= reaped_at_ + drain_limit)) {
        report();
        return;
    }
    look_later();
}

void RunnerSupervisor::Process::check_deadline(Clock::time_point now) {
    if (!deadline_ || now < *deadline_) {
        return;
    }
    if (state_ == State::starting) {
        end_because(fmt::format(
            "the runner did not answer within {:.1f} s of its start",
            std::chrono::duration<double>(options_.startup_limit).count()
        ));
        return;
    }
    if (why_.empty()) {
        why_ = stop_asked_ ? "the runner did not end when it was asked"
                           : "the runner closed its line without ending";
    }
    log::warning("runner", "signal {} to process {}: {}", next_signal_, pid_, why_);
    signal(next_signal_);
    if (next_signal_ == SIGTERM) {
        next_signal_ = SIGKILL;
        deadline_ = now + options_.terminate_limit;
    } else {
        deadline_.reset(); // Nothing more can be done; it is reaped when it goes.
    }
}

std::string RunnerSupervisor::Process::end_text() const {
    if (!why_.empty()) {
        return why_;
    }
    int const status = *wait_status_;
    if (WIFSIGNALED(status)) {
        int const number = WTERMSIG(status);
        char const* const hint = number == SIGKILL ? "; the system may have run out of memory" : "";
        return fmt::format(
            "the runner was ended by signal {} ({}){}", number, strsignal(number), hint
        );
    }
    if (stop_asked_ && WEXITSTATUS(status) == 0) {
        return "the runner ended as asked";
    }
    return fmt::format("the runner ended with exit code {}", WEXITSTATUS(status));
}

void RunnerSupervisor::Process::report() {
    int const status = *wait_status_;
    ExitReport result;
    if (WIFSIGNALED(status)) {
        result.signal = WTERMSIG(status);
    } else {
        result.exit_code = WEXITSTATUS(status);
    }
    result.orderly = stop_asked_ && result.exit_code == 0 && why_.empty();
    result.message = end_text();
    result.last_lines = lines_.last();
    log::info("runner", "process {} is gone: {}", pid_, result.message);
    orphans_.remove(pid_);
    auto const on_exit = callbacks_.on_exit;
    state_ = State::reaped;
    abandon();
    if (on_exit) {
        on_exit(std::move(result));
    }
}

void RunnerSupervisor::Process::abandon() {
    callbacks_ = {};
    line_open_ = false;
    output_open_ = false;
    SystemError ignored;
    line_.close(ignored);
    output_.close(ignored);
    timer_.cancel();
    if (!running()) {
        return;
    }
    state_ = State::reaped;
    if (wait_status_) {
        orphans_.remove(pid_);
        return;
    }
    signal(SIGKILL);
    auto const deadline = Clock::now() + reap_limit;
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
        if (Clock::now() >= deadline) {
            // A driver holds it. The next start of exo finds it by its file.
            log::error("runner", "process {} cannot be killed", pid_);
            return;
        }
        std::this_thread::sleep_for(1ms);
    }
    orphans_.remove(pid_);
}

// ---- the supervisor

RunnerSupervisor::RunnerSupervisor(
    asio::any_io_executor executor, SupervisorOptions options, SupervisorCallbacks callbacks
)
    : process_(
          std::make_shared<Process>(std::move(executor), std::move(options), std::move(callbacks))
      ) {}

RunnerSupervisor::~RunnerSupervisor() {
    process_->abandon();
}

Result<void> RunnerSupervisor::start(ipc::Start const& start) {
    return process_->start(start);
}

Result<void> RunnerSupervisor::connect(ipc::Connect const& connect) {
    return process_->send(connect);
}

Result<void> RunnerSupervisor::generate(ipc::Generate const& generate) {
    return process_->send(generate);
}

Result<void> RunnerSupervisor::cancel(model::TaskId const& task) {
    return process_->send(ipc::Cancel{.task_id = task});
}

void RunnerSupervisor::stop(std::string const& reason) {
    process_->stop(reason);
}

bool RunnerSupervisor::running() const {
    return process_->running();
}

std::optional<int> RunnerSupervisor::pid() const {
    return process_->pid();
}

} // namespace exo::node
