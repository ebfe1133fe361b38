// SPDX-License-Identifier: Apache-2.0
//
// The open connections, by peer, and what each peer says of itself. Owned by the Host.
//
// Invariant: a peer is in the table exactly while it has a connection.
#pragma once

#include "net/host/connection.hpp"
#include "net/host/connection_policy.hpp"
#include "net/identify/message.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace exo::net {

using ConnectionPtr = std::shared_ptr<Connection>;

class PeerTable {
public:
    // The other end needs a moment to see which connection we prefer and to finish what it writes.
    static constexpr Duration surplus_kept = 3s;

    explicit PeerTable(PeerId self)
        : self_(std::move(self)) {}

    // True if it is the first of its peer.
    bool add(ConnectionPtr const& connection, TimePoint now);

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

    [[nodiscard]] std::size_t connection_count() const { return connection_count_; }

private:
    struct Held {
        ConnectionPtr connection;
        TimePoint since;
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

    [[nodiscard]] std::optional<Judged> judge(PeerId const& id, Peer const& peer) const;

    PeerId self_;
    std::map<PeerId, Peer> peers_;
    std::size_t connection_count_ = 0;
};

// exo's own protocols are what tells an exo node.
[[nodiscard]] PeerKind kind_of(std::optional<identify::Message> const& identity);

} // namespace exo::net
