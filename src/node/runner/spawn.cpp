// SPDX-License-Identifier: Apache-2.0
#include "node/runner/spawn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

extern char** environ; // POSIX; declared in no header.

namespace exo::node {
namespace {

constexpr std::string_view allowed_names[] = {
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH", // Where containers keep the libraries of GPU drivers.
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "ONEAPI_DEVICE_SELECTOR",
    "ZE_AFFINITY_MASK",
    "VK_ICD_FILENAMES",
    "VK_DRIVER_FILES",
    "GGML_VK_VISIBLE_DEVICES",
};

// Below this a child's descriptors have fixed meanings; ours must not be overwritten by dup2().
constexpr int first_free_descriptor = 10;

void close_on_exec(int descriptor) {
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

Result<Descriptor> moved_up(Descriptor const& descriptor) {
    Descriptor moved(fcntl(descriptor.value(), F_DUPFD_CLOEXEC, first_free_descriptor));
    if (moved.value() < 0) {
        return errno_error("cannot duplicate a descriptor");
    }
    return moved;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (auto& text : texts) {
        result.push_back(text.data());
    }
    result.push_back(nullptr);
    return result;
}

// All that the child needs, made before fork(): after it, only async-signal-safe calls are allowed.
struct Child {
    char const* executable;
    char* const* arguments;
    char* const* environment;
    int line;
    int output;
    int null;
    int report; // Gets errno when executing failed; closes by itself when it did not.
    pid_t parent;
};

void reset_signals() {
    for (int signal = 1; signal < NSIG; ++signal) {
        (void)::signal(signal, SIG_DFL);
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, nullptr);
}

// If an execution fails, writes errno to the report and ends.
[[noreturn]] void become(Child const& child) {
    (void)setpgid(0, 0);
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != child.parent) { // It died before we asked to be told.
        _exit(127);
    }
#endif
    reset_signals();
    bool const connected =
        dup2(child.null, STDIN_FILENO) >= 0 && dup2(child.output, STDOUT_FILENO) >= 0 &&
        dup2(child.output, STDERR_FILENO) >= 0 && dup2(child.line, child_line_descriptor) >= 0;
#ifdef CLOSE_RANGE_CLOEXEC
    // Ours are close-on-exec; those of libraries may not be.
    (void)close_range(child_line_descriptor + 1, ~0u, CLOSE_RANGE_CLOEXEC);
#endif
    if (connected) {
        execve(child.executable, child.arguments, child.environment);
    }
    int const error = errno;
    (void)!write(child.report, &error, sizeof error);
    _exit(127);
}

} // namespace

Descriptor::~Descriptor() {
    if (value_ >= 0) {
        close(value_);
    }
}

int Descriptor::release() {
    return std::exchange(value_, -1);
}

Result<DescriptorPair> make_socket_pair() {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        return errno_error("cannot make a socket pair");
    }
    close_on_exec(ends[0]);
    close_on_exec(ends[1]);
    return DescriptorPair{.ours = Descriptor(ends[0]), .theirs = Descriptor(ends[1])};
}

Result<DescriptorPair> make_pipe() {
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0) {
        return errno_error("cannot make a pipe");
    }
    close_on_exec(ends[0]);
    close_on_exec(ends[1]);
    return DescriptorPair{.ours = Descriptor(ends[0]), .theirs = Descriptor(ends[1])};
}

Result<int> spawn(Spawn const& what, Descriptor line, Descriptor output) {
    auto const high_line = moved_up(line);
    auto const high_output = moved_up(output);
    auto const null = moved_up(Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)));
    auto report = make_pipe();
    if (!high_line || !high_output || !null || !report) {
        return errno_error("cannot prepare a child process");
    }
    auto high_report = moved_up(report->theirs);
    if (!high_report) {
        return high_report.error();
    }
    report->theirs = Descriptor();
    std::vector<std::string> arguments{what.executable.string()};
    arguments.insert(arguments.end(), what.arguments.begin(), what.arguments.end());
    auto environment = what.environment;
    auto const argument_pointers = pointers(arguments);
    auto const environment_pointers = pointers(environment);
    Child const child{
        .executable = what.executable.c_str(),
        .arguments = argument_pointers.data(),
        .environment = environment_pointers.data(),
        .line = high_line->value(),
        .output = high_output->value(),
        .null = null->value(),
        .report = high_report->value(),
        .parent = getpid(),
    };
    pid_t const pid = fork();
    if (pid < 0) {
        return errno_error("cannot start a process");
    }
    if (pid == 0) {
        become(child);
    }
    (void)setpgid(pid, pid); // Also here: whoever of us is first.
    int error = 0;
    // Our copy of the writing end must go, or the read below would never end.
    *high_report = Descriptor();
    ssize_t count = 0;
    do {
        count = read(report->ours.value(), &error, sizeof error);
    } while (count < 0 && errno == EINTR);
    if (count == sizeof error) {
        (void)waitpid(pid, nullptr, 0);
        return io_error(
            fmt::format("cannot execute {}", what.executable.string()),
            std::error_code(error, std::generic_category())
        );
    }
    return pid;
}

std::vector<std::string> runner_environment(std::vector<std::string> const& environment) {
    std::vector<std::string> result;
    for (auto const& entry : environment) {
        std::string_view const name = std::string_view(entry).substr(0, entry.find('='));
        if (std::ranges::find(allowed_names, name) != std::end(allowed_names)) {
            result.push_back(entry);
        }
    }
    // An abort of ggml would start a debugger otherwise (specs/engine.md).
    result.emplace_back("GGML_NO_BACKTRACE=1");
    return result;
}

std::vector<std::string> own_environment() {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        result.emplace_back(*entry);
    }
    return result;
}

} // namespace exo::node
