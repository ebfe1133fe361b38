// SPDX-License-Identifier: Apache-2.0
//
// Joins the ranks: the driver of one Handshake for each connection that is tried. Blocks its caller
// until every pair has a connection and every rank has said that it has them all.
//
// The higher rank dials the lower one. It tries the rank's addresses one after another, each a
// little later than the one before, without waiting for it to fail (an address that leads nowhere
// must not cost its time-out), and chooses the first that the right rank answers. Then all over
// again until the time is up: the other rank may start later.
//
// What strangers do at the port is harmless: they are few at a time, each for a short time, and
// nothing that an unproven side says ends the group.
#pragma once

#include "collective/tcp/handshake.hpp"
#include "collective/tcp/network.hpp"
#include "collective/tcp/tcp_group.hpp"

#include <deque>
#include <map>

namespace exo::collective {

// A connection with one other rank, both ready.
struct Joined {
    Socket socket;
    std::string where; // The other rank's address, for texts.
    Session session;
};

class Connector {
public:
    // `options` must outlive it.
    Connector(
        Listener listener,
        Handshake::Self self,
        std::vector<Endpoint> const& endpoints,
        std::vector<Network> private_networks,
        TcpOptions const& options
    );

    // In rank order, without the own. Errors: TcpGroup::connect.
    [[nodiscard]] Result<std::vector<Joined>> run();

private:
    // One connection whose other end has not proven itself yet.
    struct Attempt {
        Socket socket;
        std::string where;
        Handshake handshake;
        TimePoint deadline;
        std::optional<std::uint32_t> dialled; // The rank that we look for there.
        bool connecting = false;
        Bytes output;
        bool over = false;
    };

    struct Peer {
        Endpoint endpoint;
        std::size_t next_address = 0;
        TimePoint next_dial;
        std::map<std::string, std::string> failures; // By address, the latest.
        std::optional<Joined> joined;
        Bytes output;
        bool ready = false;
    };

    [[nodiscard]] Result<void> step(TimePoint now);
    [[nodiscard]] bool finished() const;
    void dial_what_is_due(TimePoint now);
    void dial_next_address(std::uint32_t rank, TimePoint now);
    [[nodiscard]] bool needs_no_cipher(Socket const& socket) const;
    void drop_late_attempts(TimePoint now);
    void announce_when_joined();
    void wait(TimePoint now);
    void accept_all(TimePoint now);
    [[nodiscard]] Result<void> advance(Attempt& attempt);
    [[nodiscard]] Result<bool> read_handshake(Attempt& attempt);
    void give_up(Attempt& attempt, std::string const& why);
    void join(Attempt& attempt);
    [[nodiscard]] Result<void> advance(std::uint32_t rank, Peer& peer);
    [[nodiscard]] Result<void> take_records(std::uint32_t rank, Peer& peer);
    [[nodiscard]] bool has_dial_to(std::uint32_t rank) const;
    [[nodiscard]] Error too_late() const;
    void tell_failure(Error const& error);

    Listener listener_;
    Handshake::Self self_;
    std::vector<Network> private_networks_;
    TcpOptions const& options_;
    std::vector<Peer> peers_; // By rank; the own one is unused.
    std::deque<Attempt> attempts_;
    bool announced_ = false;
    std::uint32_t refused_ = 0; // Connections to our port that no rank of ours made.
    std::string last_refusal_;
};

} // namespace exo::collective
