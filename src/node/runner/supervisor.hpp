// SPDX-License-Identifier: Apache-2.0
//
// One runner process: starts it, speaks ipc with it, keeps its last words, ends it and always reaps
// it. Whatever the child does (crash, hang, garbage on its line), the node gets an ExitReport and
// lives on.
//
// One thread: methods are called on the executor given, and callbacks are called on it, never from
// within a method. A callback may destroy the supervisor.
//
// The child is spawned in its own process group, with a whitelisted environment, stdin from
// /dev/null, and on Linux with SIGKILL as its parent-death signal. That signal follows the *thread*
// that called start(): it must live as long as the node.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "ipc/messages.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::node {

namespace asio = boost::asio;

struct ExitReport {
    std::optional<int> exit_code; // Or:
    std::optional<int> signal;
    // True when stop() was asked and the runner ended by itself with code 0.
    bool orderly = false;
    // One sentence for people: the runner's own Fault, else what became of the process.
    std::string message;
    std::vector<std::string> last_lines; // Of its stdout and stderr, oldest first.
};

struct SupervisorOptions {
    std::filesystem::path executable;             // exo itself.
    std::vector<std::string> arguments{"runner"}; // "--ipc-fd", N are appended.
    // Where pids are kept for the next boot (orphans.hpp); empty: nowhere.
    std::filesystem::path orphans_directory;
    // From start to Listening (several ranks) or the first status (one).
    Duration startup_limit = 60s;
    Duration shutdown_limit = 1s;  // From Shutdown to SIGTERM.
    Duration terminate_limit = 1s; // From SIGTERM to SIGKILL.
};

struct SupervisorCallbacks {
    std::function<void(std::uint16_t port)> on_listening;
    std::function<void(model::RunnerStatus)> on_status;
    std::function<void(model::TaskId, model::GenerationEvent)> on_event;
    // Once, when the process is reaped; nothing is called after it.
    std::function<void(ExitReport)> on_exit;
};

class RunnerSupervisor {
public:
    RunnerSupervisor(
        asio::any_io_executor executor, SupervisorOptions options, SupervisorCallbacks callbacks
    );

    // Kills what still runs and waits for its end (milliseconds), without on_exit.
    ~RunnerSupervisor();

    RunnerSupervisor(RunnerSupervisor const&) = delete;
    RunnerSupervisor& operator=(RunnerSupervisor const&) = delete;

    // Spawns the process and sends it `start`. Error: io, when it cannot be executed. Called once.
    Result<void> start(ipc::Start const& start);

    // Errors of these three: unavailable (not running, or stopping), limit (the runner does not
    // read what it is sent; it is then killed).
    Result<void> connect(ipc::Connect const& connect);
    Result<void> generate(ipc::Generate const& generate);
    Result<void> cancel(model::TaskId const& task);

    // Shutdown; SIGTERM after shutdown_limit; SIGKILL after terminate_limit more. on_exit follows.
    // The reason is for the log. May be repeated.
    void stop(std::string const& reason);

    // From start() until the process is reaped.
    [[nodiscard]] bool running() const;
    [[nodiscard]] std::optional<int> pid() const;

private:
    class Process;
    std::shared_ptr<Process> process_; // Shared with its pending handlers, which may outlive us.
};

} // namespace exo::node
