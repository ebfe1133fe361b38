// SPDX-License-Identifier: Apache-2.0
//
// What moves a TCP group's bytes: the wait of the calling thread, the I/O thread, the beats and the
// error latch. The operations themselves are in tcp_group.cpp.
//
// Who reads a socket: the caller, while it waits for something from it (no change of threads on the
// way of a small message); the I/O thread otherwise, but only once much has come, so that small
// messages do not wake it while the caller computes. Who writes: the caller; the I/O thread what
// the socket did not take at once.
//
// Measured with 2 ranks on 2 cores (bench/collective_bench), as the core time that a round trip of
// 8 KB takes from one rank: 7.8 us over a bare socket, 10.2 us here without cipher, 22.5 us with
// it; 11.8 us (without cipher) when each wait enters and leaves Link's direct mode. Spinning saves
// the wake-up when there are cores to spare; on a busy machine it made the same round trip five
// times as long, until SpinPolicy.
#pragma once

#include "collective/tcp/link.hpp"
#include "collective/tcp/spin.hpp"
#include "collective/tcp/watch.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace exo::collective {

// Messages that are sent and received together: none waits for another.
class Exchange {
public:
    void send(std::uint32_t to, Operation operation, BytesView bytes);
    // At most one message from each rank. `into` has the message's size.
    Inbound& receive(std::uint32_t from, Operation operation, std::span<std::uint8_t> into);
    Inbound& receive_any_size(std::uint32_t from, Operation operation);

    [[nodiscard]] std::span<Outbound> outbound() {
        return std::span(outbound_).first(outbound_count_);
    }

    // Messages that have not come yet.
    [[nodiscard]] std::size_t awaited();

    [[nodiscard]] std::span<Inbound> inbound() { return std::span(inbound_).first(inbound_count_); }

private:
    std::array<Outbound, ranks_max> outbound_;
    std::size_t outbound_count_ = 0;
    std::array<Inbound, ranks_max> inbound_;
    std::size_t inbound_count_ = 0;
};

class TcpCore {
public:
    TcpCore(
        std::uint32_t rank,
        std::uint32_t size,
        std::vector<Joined> joined,
        TcpOptions const& options
    );
    ~TcpCore();

    TcpCore(TcpCore const&) = delete;
    TcpCore& operator=(TcpCore const&) = delete;

    [[nodiscard]] std::uint32_t rank() const { return rank_; }

    [[nodiscard]] std::uint32_t size() const { return size_; }

    // Until all is received and queued. Errors latch.
    [[nodiscard]] Result<void> run(Exchange& exchange);

    void latch(Error error);
    [[nodiscard]] Result<void> health() const;

    [[nodiscard]] std::string describe() const;

    // By rank: both ends of the link are on this machine.
    [[nodiscard]] std::vector<bool> within_machine() const;

private:
    // From the last progress of an exchange to the next.
    struct Wait {
        bool spins = false;
        std::optional<TimePoint> spin_end; // Spinning has begun.
    };

    // ---- of the caller
    [[nodiscard]] Result<void> run_to_end(Exchange& exchange);
    [[nodiscard]] Result<bool> write_pending(Exchange& exchange);
    [[nodiscard]] Result<bool> read_pending(Exchange& exchange);
    [[nodiscard]] Wait begin_wait();
    [[nodiscard]] bool go_on_spinning(Wait& wait);
    void end_wait(Wait const& wait);
    void sleep(Exchange& exchange, std::size_t awaited);
    void settle(Exchange& exchange);

    // ---- of the I/O thread
    void work();
    void handle(Happened const& happened, TimePoint now);
    [[nodiscard]] TimePoint tick_if_due(TimePoint due);
    void tick(Link& link, TimePoint now);
    void say_goodbye();

    // ---- of both
    void refresh(Link& link);
    [[nodiscard]] Error explain(Link& link, Error error);

    std::uint32_t const rank_;
    std::uint32_t const size_;
    TcpOptions const options_;
    std::vector<std::unique_ptr<Link>> links_; // By rank; the own one is null.

    Watch watch_;
    std::mutex refresh_mutex_; // What is wanted of a socket is computed and told as one step.
    Bell bell_;                // Wakes the caller.
    SpinPolicy spin_policy_;   // The caller's.
    std::atomic<bool> stopping_ = false;

    std::mutex mutable latch_mutex_;
    std::optional<Error> error_;
    std::atomic<bool> failed_ = false; // error_ is set.

    std::thread thread_; // Last: it uses all of the above.
};

} // namespace exo::collective
