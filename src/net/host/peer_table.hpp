// SPDX-License-Identifier: Apache-2.0
//
// The open connections, by peer, and what each peer says of itself. Owned by the Host.
//
// Invariant: a peer is in the table exactly while it has a connection.
#pragma once

#include "net/diagnosis/facts.hpp"
#include "net/host/connection.hpp"
#include "net/host/connection_policy.hpp"
#include "net/identify/message.hpp"
#include "net/interfaces/reach.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::net {

using ConnectionPtr = std::shared_ptr<Connection>;

class PeerTable {
public:
    // The other end needs a moment to see which connection we prefer and to finish what it writes.
    static constexpr Duration surplus_kept = 3s;

    explicit PeerTable(PeerId self)
        : self_(std::move(self)) {}

    // True if it is the first of its peer. `local_ip`: our end of it; `reach`: how good its way is.
    bool add(ConnectionPtr const& connection, std::string local_ip, Reach reach, TimePoint now);

    // True if it was the last of its peer.
    bool remove(ConnectionPtr const& connection);

    void set_identity(PeerId const& peer, identify::Message message);

    // Null if the peer is not connected, or has not said.
    [[nodiscard]] identify::Message const* identity(PeerId const& peer) const;

    // Where new streams go; null if the peer has no connection that is open.
    [[nodiscard]] ConnectionPtr preferred(PeerId const& peer) const;

    // Connections that are one too many, to be closed now.
    [[nodiscard]] std::vector<ConnectionPtr> to_close(TimePoint now) const;

    [[nodiscard]] bool contains(PeerId const& peer) const { return peers_.contains(peer); }

    [[nodiscard]] std::vector<PeerId> peers() const;
    [[nodiscard]] std::vector<ConnectionPtr> connections() const;
    [[nodiscard]] std::vector<ConnectionPtr> connections(PeerId const& peer) const;

    // The best way by which the peer is connected. REQUIRES: it is.
    [[nodiscard]] Reach best_reach(PeerId const& peer) const;

    // Empty if the connection is not in the table.
    [[nodiscard]] std::string local_ip(Connection const& connection) const;

    // REQUIRES: it is in the table.
    [[nodiscard]] ConnectionFacts facts_of(Connection const& connection) const;
    [[nodiscard]] std::vector<ConnectionFacts> facts() const;

    [[nodiscard]] std::size_t connection_count() const { return connection_count_; }

private:
    struct Held {
        ConnectionPtr connection;
        TimePoint since;
        std::uint64_t id = 0;
        std::string local_ip;
        Reach reach = Reach::lan;
    };

    struct Peer {
        std::vector<Held> held; // In the order in which they came. Never empty.
        std::optional<identify::Message> identity;
    };

    // Those of the peer that are not ending, and the verdict on them. Empty if there is none.
    struct Judged {
        std::vector<Held> open;
        PolicyVerdict verdict;
    };

    [[nodiscard]] Held const* find(Connection const& connection) const;
    [[nodiscard]] static ConnectionFacts facts_of(Held const& held);
    [[nodiscard]] std::optional<Judged> judge(PeerId const& id, Peer const& peer) const;

    PeerId self_;
    std::map<PeerId, Peer> peers_;
    std::size_t connection_count_ = 0;
    std::uint64_t last_id_ = 0;
};

// exo's own protocols are what tells an exo node.
[[nodiscard]] PeerKind kind_of(std::optional<identify::Message> const& identity);

} // namespace exo::net
