// SPDX-License-Identifier: Apache-2.0
//
// One rank of one instance, from Start to the end (ipc/messages.hpp is the protocol).
//
// Threads: the calling one is the engine's and does everything; a second one reads from the node.
// When the node is gone, or asks for the end while this rank waits for another one, the reader
// fails the group, which wakes the engine's thread.
#pragma once

#include "collective/group.hpp"
#include "collective/tcp/tcp_group.hpp"
#include "engine/engine.hpp"
#include "ipc/channel.hpp"
#include "runner/mailbox.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace exo::runner {

class Session {
public:
    // Takes ownership of the descriptor: the socket to the node.
    // `measure`: instead of serving requests rank 0 measures, prints the result as a line of JSON,
    // and all end.
    Session(int descriptor, std::optional<engine::MeasureOptions> measure);
    ~Session();

    // Returns the exit code: 0 after Shutdown or when the node is gone, 1 after a Fault was sent.
    [[nodiscard]] int run();

private:
    void read_node();
    void end_soon(Error const& reason, Duration grace);

    [[nodiscard]] Result<void> serve();
    [[nodiscard]] Result<ipc::Start> await_start();
    [[nodiscard]] Result<ipc::Connect> await_connect();
    [[nodiscard]] Result<void> join(ipc::Start const& start);
    [[nodiscard]] Result<void> join_others(
        ipc::Start const& start, ipc::Connect const& connect, collective::Listener listener
    );
    void set_group(std::unique_ptr<collective::Group> group);
    [[nodiscard]] Result<void> load(ipc::Start const& start);
    [[nodiscard]] Result<void> lead();
    [[nodiscard]] Result<void> obey();
    [[nodiscard]] Result<void> measure(ipc::Start const& start);
    [[nodiscard]] Result<model::GenerationFinished> measure_answer();

    Result<void> tell(ipc::FromRunner const& message);
    Result<void> tell_status(model::RunnerStatus status);
    void on_event(model::TaskId const& task, model::GenerationEvent event);

    int const descriptor_;
    ipc::Channel channel_;
    std::optional<engine::MeasureOptions> const measure_;
    std::optional<model::GenerationEvent> measured_; // The last event of a measured answer.
    Mailbox mailbox_;
    std::deque<ipc::ToRunner> taken_; // Of the mailbox, not looked at yet.

    std::atomic<bool> cancelled_{false}; // Connecting is to stop.
    std::atomic<bool> ending_{false};    // The node wants the end, or is gone.
    std::mutex group_mutex_;             // group_ is made by one thread and failed by another.
    std::unique_ptr<collective::Group> group_;
    std::unique_ptr<engine::Engine> engine_;

    std::mutex done_mutex_;
    std::condition_variable done_changed_;
    bool done_ = false;
    std::thread reader_;
};

} // namespace exo::runner
