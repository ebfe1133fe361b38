// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include "runner/process.hpp"

#include <fmt/core.h>

#include <array>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace exo::architectures {
namespace {

// A child takes seconds at most on an idle machine; one that hangs must not hang the test.
constexpr unsigned seconds_max = 120;

enum Kind : std::uint8_t { result = 'r', error = 'e' };

int descriptor_of_child = -1; // For ggml's last words, which come as a plain function.

void write_all(Kind kind, BytesView bytes) {
    std::uint8_t const first = kind;
    bool open = write(descriptor_of_child, &first, 1) == 1;
    while (open && !bytes.empty()) {
        auto const sent = write(descriptor_of_child, bytes.data(), bytes.size());
        open = sent > 0;
        bytes = bytes.subspan(open ? static_cast<std::size_t>(sent) : 0);
    }
}

void last_words(std::string const& reason) {
    write_all(error, as_bytes(reason));
    std::_Exit(1);
}

[[noreturn]] void run(Child::Program const& program) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(seconds_max);
    runner::prepare_process();
    runner::set_last_words(last_words);
    auto const made = program();
    if (made) {
        write_all(result, *made);
    } else {
        auto const text = made.error().text();
        write_all(error, as_bytes(text));
    }
    std::_Exit(0);
}

} // namespace

Child::Child(Program const& program) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) {
        return; // wait() says so.
    }
    descriptor_ = ends[0];
    process_ = fork();
    if (process_ == 0) {
        close(ends[0]);
        descriptor_of_child = ends[1];
        run(program);
    }
    close(ends[1]);
}

Child::~Child() {
    if (process_ > 0) {
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
    }
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

Child::Child(Child&& other) noexcept
    : process_(std::exchange(other.process_, -1))
    , descriptor_(std::exchange(other.descriptor_, -1)) {}

Result<Bytes> Child::wait() {
    if (process_ <= 0) {
        return errno_error("cannot start a process");
    }
    Bytes all;
    std::array<std::uint8_t, 1 << 16> part{};
    for (ssize_t got = 0; (got = read(descriptor_, part.data(), part.size())) > 0;) {
        append(all, BytesView(part).first(static_cast<std::size_t>(got)));
    }
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    if (WIFSIGNALED(status)) {
        return Error(Errc::internal, fmt::format("ended by signal {}", WTERMSIG(status)));
    }
    if (all.empty()) {
        return Error(Errc::internal, fmt::format("ended with code {}", WEXITSTATUS(status)));
    }
    auto const kind = all.front();
    all.erase(all.begin());
    if (kind == result) {
        return all;
    }
    return Error(Errc::unsupported, std::string(all.begin(), all.end()));
}

} // namespace exo::architectures
