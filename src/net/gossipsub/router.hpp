// SPDX-License-Identifier: Apache-2.0
//
// Gossipsub 1.1 and 1.2 with StrictSign for one node, without I/O (specs/libp2p.md 9; libp2p specs
// pubsub/gossipsub). RPCs in, RPCs and messages out, time as a parameter, randomness from a seed.
//
// The driver (net::Host) keeps one outgoing stream per connection and reads those of the peer. All
// state is per peer, not per connection: several connections with one peer are normal, and their
// streams share the peer's queue. After each call the driver takes all events and wakes the
// writers of peers_to_wake(), who write at rpc_due(); it calls heartbeat() at deadline().
//
// Invariants: a mesh has only connected peers that subscribe to its topic, and only topics that we
// subscribe to, and never more than mesh_high; what we keep because of one peer is at most
// peer_bytes_max(); no RPC we make exceeds rpc_bytes_max.
//
// Its bodies are in router.cpp (calls of the driver, messages) and router_mesh.cpp (who is told
// what: mesh, gossip, the heartbeat).
#pragma once

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "net/crypto/identity.hpp"
#include "net/gossipsub/caches.hpp"
#include "net/gossipsub/limits.hpp"
#include "net/gossipsub/message.hpp"
#include "net/gossipsub/outbox.hpp"
#include "net/gossipsub/rpc.hpp"
#include "net/wire/peer_id.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace exo::net::gossipsub {

// Offered in this order, as rust does.
enum class Version { v1_0, v1_1, v1_2 };
constexpr char const* protocol_1_2 = "/meshsub/1.2.0";
constexpr char const* protocol_1_1 = "/meshsub/1.1.0";
constexpr char const* protocol_1_0 = "/meshsub/1.0.0";

// Empty for other names.
[[nodiscard]] std::optional<Version> version_of(std::string_view protocol);

struct Message {
    std::string topic;
    PeerId author;
    Bytes data;
    bool operator==(Message const&) const = default;
};

// What has been refused or lost, for people and tests.
struct Counters {
    std::uint64_t messages_rejected = 0; // Malformed or badly signed.
    std::uint64_t duplicates = 0;
    std::uint64_t rpcs_malformed = 0;
    std::uint64_t over_limit = 0;    // Entries of RPCs, and whole ones, that a limit has cut off.
    std::uint64_t queue_dropped = 0; // Messages that a slow peer did not get.
    bool operator==(Counters const&) const = default;
};

class Router {
public:
    // `first_sequence_number`: rust takes the wall clock in nanoseconds, so that a restarted node
    // does not repeat numbers.
    // REQUIRES: limits that fit each other, as the defaults do.
    Router(
        Identity identity,
        Random random,
        std::uint64_t first_sequence_number,
        TimePoint now,
        Limits limits = {}
    );

    void subscribe(std::string const& topic, TimePoint now);
    void unsubscribe(std::string const& topic, TimePoint now);

    // The first connection with the peer has come, or its last one has gone.
    void peer_connected(PeerId const& peer);
    void peer_disconnected(PeerId const& peer);

    // No peer gets a message any more that came or was published before this.
    void forget_messages();

    // What our outgoing stream negotiated; 1.1 until then.
    void peer_speaks(PeerId const& peer, Version version);

    // Our outgoing stream was lost and made anew while the connection lives: the peer may have
    // forgotten our subscriptions.
    void announce_again(PeerId const& peer);

    // `rpc` is one RPC without its length prefix. Bad messages within are counted and dropped.
    // Error: protocol, for an RPC that cannot be parsed: drop the stream, not the connection.
    [[nodiscard]] Result<void> receive(PeerId const& from, BytesView rpc, TimePoint now);

    // To every peer that subscribes to the topic, in the mesh or not. Having none is no error.
    // Error: limit, when the RPC would exceed `rpc_bytes_max`.
    [[nodiscard]] Result<void> publish(std::string const& topic, BytesView data, TimePoint now);

    void heartbeat(TimePoint now);

    // When heartbeat() wants to be called.
    [[nodiscard]] TimePoint deadline() const { return next_heartbeat_; }

    // The next RPC to write to this peer, without its length prefix.
    [[nodiscard]] std::optional<Bytes> next_rpc(PeerId const& peer, TimePoint now);
    [[nodiscard]] bool has_rpc(PeerId const& peer) const;

    // When it should be taken: in the past for at once, TimePoint::max() if there is none.
    [[nodiscard]] TimePoint rpc_due(PeerId const& peer) const;

    // Those who have an RPC.
    [[nodiscard]] std::vector<PeerId> ready_peers() const;

    // Those whose RPC is due earlier than when this was last asked for.
    [[nodiscard]] std::vector<PeerId> peers_to_wake();

    // A valid message of another author on a topic of ours, once.
    [[nodiscard]] std::optional<Message> next_event();

    [[nodiscard]] Counters const& counters() const { return counters_; }

    [[nodiscard]] Limits const& limits() const { return limits_; }

    [[nodiscard]] std::set<PeerId> mesh(std::string const& topic) const;
    [[nodiscard]] std::set<PeerId> subscribers(std::string const& topic) const;

private:
    struct Peer {
        explicit Peer(OutboxLimits const& limits)
            : outbox(limits) {}

        Version version = Version::v1_1;
        std::set<std::string, std::less<>> topics;
        bool topics_are_assumed = false; // Those it had when it left; it has said nothing yet.
        Outbox outbox;
        TimePoint last_rpc = TimePoint::min();
        TimePoint told_due = TimePoint::max(); // By peers_to_wake().
        Outbox::Unwanted unwanted;             // By IDONTWANT, or because it has sent them.
        std::map<MessageId, int, std::less<>> retransmitted; // By IWANT; while we have them.
        // Since the last heartbeat.
        std::size_t ihaves = 0;
        std::size_t ids_asked = 0;  // By us, because of its IHAVEs.
        std::size_t ids_wanted = 0; // By its IWANTs.
        std::size_t ids_unwanted = 0;
        std::size_t grafts = 0;
        std::size_t rejected = 0;
    };

    // rust announces its topics on the first connection only. After a break that only we have
    // noticed (it was frozen, its cable was out) our next connection is no first one to it, and it
    // would stay without topics for ever.
    struct Departed {
        PeerId peer;
        std::set<std::string, std::less<>> topics;
    };

    struct Asked {
        PeerId peer;
        TimePoint until; // Not asked of another peer until then.
    };

    using Peers = std::map<PeerId, Peer>;
    using Mesh = std::set<PeerId>;
    using Topic = std::string_view;

    // router.cpp
    void on_message(PeerId const& from, Peer& peer, BytesView bytes, TimePoint now);
    void deliver(SignedMessage message, PeerId const& from, TimePoint now);
    void reject(Peer& peer);
    void forward(SignedMessage const& message, PeerId const& from, TimePoint now);
    [[nodiscard]] TimePoint rpc_due(Peer const& peer) const;
    void unwant(Peer& peer, std::string_view id, TimePoint now);

    // router_mesh.cpp
    void remember(PeerId const& peer, std::set<std::string, std::less<>> topics);
    void believe_no_more(PeerId const& from, Peer& peer);
    void on_subscribed(PeerId const& from, Peer& peer, Topic topic, TimePoint now);
    void on_unsubscribed(PeerId const& from, Peer& peer, Topic topic);
    void on_control(PeerId const& from, Peer& peer, ReceivedRpc const& rpc, TimePoint now);
    void on_ihave(PeerId const& from, Peer& peer, ReceivedRpc::IHave const& ihave, TimePoint now);
    void on_iwant(Peer& peer, std::string_view id, TimePoint now);
    void on_graft(PeerId const& from, Peer& peer, Topic topic, TimePoint now);
    void on_prune(PeerId const& from, ReceivedRpc::Prune const& prune, TimePoint now);
    void on_dont_want(Peer& peer, std::string_view id, TimePoint now);
    void join(std::string const& topic, PeerId const& peer);
    void drop(std::string const& topic, PeerId const& peer, Duration backoff, TimePoint now);
    void fill_mesh(std::string const& topic, TimePoint now);
    void gossip(std::string const& topic);
    void expire(TimePoint now);
    void expire(Peer& peer, TimePoint now);
    void set_backoff(std::string const& topic, PeerId const& peer, TimePoint until);
    [[nodiscard]] TimePoint backoff_end(std::string const& topic, PeerId const& peer) const;
    [[nodiscard]] bool may_graft(std::string const& topic, PeerId const& peer, TimePoint now) const;
    [[nodiscard]] std::vector<PeerId> outsiders(std::string const& topic) const;
    void choose(std::vector<PeerId>& peers, std::size_t count_max);
    // True while the limit of one heartbeat has room; counts what it cuts off.
    [[nodiscard]] bool within(std::size_t& count, std::size_t count_max);

    Identity identity_;
    Random random_;
    std::uint64_t next_sequence_number_;
    Limits limits_;
    Peers peers_;
    std::deque<Departed> departed_;                   // Who left last is last.
    std::map<std::string, Mesh, std::less<>> meshes_; // The keys: all topics that we subscribe to.
    std::map<std::pair<std::string, PeerId>, TimePoint> backoffs_; // No GRAFT until then.
    std::map<MessageId, Asked, std::less<>> asked_;                // By IWANT.
    SeenCache seen_;
    MessageCache history_;
    std::deque<Message> events_;
    TimePoint next_heartbeat_;
    Counters counters_;
};

} // namespace exo::net::gossipsub
