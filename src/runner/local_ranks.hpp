// SPDX-License-Identifier: Apache-2.0
//
// All ranks of an instance as child processes of this one, on this machine: what a node does for
// one rank, for all of them at once and without a cluster. For measurements and tests.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "ipc/frame.hpp"
#include "ipc/messages.hpp"

#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace exo::runner {

// A network of its own for a rank, so that what joins the ranks is as slow as a test or measurement
// wants it: a named network namespace (`ip netns`), and the rank's address there. Linux only.
struct Place {
    std::string network_namespace;
    std::string address;

    // "NAMESPACE=ADDRESS". Error: invalid_argument.
    [[nodiscard]] static Result<Place> parse(std::string const& text);
};

class LocalRanks {
public:
    // Starts `world_size` times `command` with --ipc-fd appended, and sends each Start, made of
    // `start` with its rank. `places` by rank; empty: all in this process's network.
    [[nodiscard]] static Result<std::unique_ptr<LocalRanks>> spawn(
        std::vector<std::string> const& command,
        ipc::Start const& start,
        std::vector<Place> const& places = {}
    );
    // Ends what still runs.
    ~LocalRanks();

    LocalRanks(LocalRanks const&) = delete;
    LocalRanks& operator=(LocalRanks const&) = delete;

    // introduce(), and waits until all are ready. Error: the first Fault of a rank, with its
    // number.
    Result<void> connect(Duration limit);

    // Lets the ranks find each other with a random key.
    Result<void> introduce(Duration limit);

    // Waits until each rank has said where it listens: the endpoints that introduce() uses. Once.
    [[nodiscard]] Result<std::vector<ipc::RankEndpoint>> await_endpoints(Duration limit);

    // The same with endpoints of the caller's, which may lead through something of his.
    Result<void> introduce(std::vector<ipc::RankEndpoint> endpoints);

    Result<void> send(std::uint32_t rank, ipc::ToRunner const& message);

    // The next message; nothing when `limit` is over. Errors: io, when the rank has ended.
    [[nodiscard]] Result<std::optional<ipc::FromRunner>>
    receive(std::uint32_t rank, Duration limit);

    // Waits for the process; its exit code, or 128 and the signal.
    [[nodiscard]] int wait(std::uint32_t rank);

    [[nodiscard]] pid_t process(std::uint32_t rank) const { return ranks_[rank].process; }

    // As a crash.
    void kill(std::uint32_t rank);

    // As a machine that stands still for a while.
    void suspend(std::uint32_t rank);
    void resume(std::uint32_t rank);

    // As the end of the node: nothing more is read or written.
    void hang_up(std::uint32_t rank);

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }

private:
    struct Rank {
        pid_t process = -1;
        int descriptor = -1;
        ipc::FrameReader reader;
        std::string address = "127.0.0.1";
    };

    LocalRanks() = default;
    Result<void> start_one(std::vector<std::string> const& command, Place const* place);
    [[nodiscard]] Result<std::uint16_t> await_port(std::uint32_t rank, TimePoint deadline);
    Result<void> await_ready(std::uint32_t rank, TimePoint deadline);

    std::vector<Rank> ranks_;
};

} // namespace exo::runner
