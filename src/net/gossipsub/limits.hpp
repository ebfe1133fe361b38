// SPDX-License-Identifier: Apache-2.0
//
// The numbers of gossipsub, with their reasons. rust's where it has them, so that a mixed mesh
// behaves as one of rust alone. What a peer may cost us is bounded by limits of its own instead of
// scores (specs/libp2p.md 9): what exceeds one is dropped and counted, the connection stays.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>

namespace exo::net::gossipsub {

// What waits for one peer.
struct OutboxLimits {
    // Messages, three of the largest. Each counts for its bytes and message_overhead_bytes; the
    // bytes themselves are shared with the queues of other peers.
    std::size_t queue_bytes_max = 24 * 1024 * 1024;
    // Of IHAVE, IWANT and IDONTWANT: 5000 ids of rust, one and a half times. More is not said.
    std::size_t gossip_bytes_max = 1024 * 1024;
    // Entries are packed into one RPC up to this size, a larger message travels alone: a stream of
    // small RPCs lets other streams of the connection have their turn, and 64 KiB is the most that
    // rust takes where nobody has told it otherwise.
    std::size_t rpc_bytes_packed = 64 * 1024;
};

// What an entry of a queue, a map or a list takes beside its bytes, on the safe side.
constexpr std::size_t message_overhead_bytes = 256;
constexpr std::size_t id_overhead_bytes = 64;
constexpr std::size_t node_overhead_bytes = 192;

struct Limits {
    std::size_t rpc_bytes_max = 8 * 1024 * 1024; // exo's max_transmit_size.
    // Of one RPC, which is read on the network thread in one go: subscriptions, entries of control
    // and their ids all together, and messages, whose signatures cost 0.05 ms each. The rest of the
    // RPC is not read. Other libraries send one message in each, exo as many as fit 64 KiB.
    std::size_t rpc_entries_max = 32'768;
    std::size_t rpc_messages_max = 1024;

    std::size_t mesh_size = 6;
    std::size_t mesh_low = 5;
    std::size_t mesh_high = 12; // A GRAFT beyond it is refused, so nothing has to be trimmed.
    std::size_t gossip_peers = 6;
    Duration heartbeat_first = 5s;
    Duration heartbeat_interval = 1s;
    Duration prune_backoff = 60s;
    Duration unsubscribe_backoff = 10s;
    Duration backoff_max = 1h; // Of what a peer may ask for.
    // We GRAFT this much after a backoff: the other side's began a little later than ours.
    Duration backoff_slack = 1s;
    std::size_t backoffs_max = 4096; // 128 peers on 32 topics; then those that end first go.
    Duration duplicates_kept = 60s;
    std::size_t history_heartbeats = 5;
    std::size_t gossip_heartbeats = 3;
    std::size_t dont_want_data_bytes = 1000; // Shorter messages are not worth an IDONTWANT.
    Duration dont_want_kept = 3s;
    // A message is told of for three heartbeats. Whoever did not send what we asked for after the
    // first is replaced after the third.
    Duration iwant_wait = 1500ms;

    // After an RPC, messages of others wait this long for company: under load they travel in a few
    // RPCs, and many turn out to be there already. Our own messages do not wait, nor does control,
    // and whatever waits goes with them.
    Duration forward_pause = 5ms;
    // In a queue: our own messages (and what a peer asked for), and those of others, which take
    // other ways as well. Who is that slow gets fresh ones instead.
    Duration publish_age_max = 5s;
    Duration forward_age_max = 1s;

    // Of one peer. exo has 6 topics; other programs on the same network may have more.
    std::size_t topics_max = 512;
    std::size_t topic_bytes_max = 1024;
    // Peers that have left, whose topics we remember in case they return, and topics of one: a
    // cluster at most, each with a few times exo's topics.
    std::size_t departed_max = 64;
    std::size_t departed_topics_max = 32;
    OutboxLimits outbox;
    // Of one peer and heartbeat.
    std::size_t ihave_max = 10;
    std::size_t ids_max = 5000; // IHAVE (each), IWANT and IDONTWANT.
    std::size_t grafts_max = 1024;
    // Messages that are malformed or badly signed. Honest peers check what they pass on, so they
    // have none; of others nothing is checked any more until the next heartbeat.
    std::size_t rejected_max = 100;
    int retransmissions_max = 3; // Of one message by IWANT.

    std::size_t duplicates_max = 100'000; // 1600 messages a second for 60 s.
    std::size_t history_bytes_max = 64 * 1024 * 1024;
    std::size_t id_bytes_max = 256; // rust's ids have 70 letters.

    // Outgoing streams that one connection may see from us: at the fifth rust turns gossip off.
    int streams_per_connection_max = 4;
    // Before a stream that was lost is opened again.
    Duration stream_reopen_pause = 1s;
};

// The most that a Router keeps because of one peer, whatever that peer sends, and however little it
// reads. On top of it the driver holds one RPC that is being read for each connection, and one that
// is being written.
//
// Topics; what it does not want; what was sent again to it; what we asked of it, for as many
// heartbeats as we wait; what waits for it.
[[nodiscard]] constexpr std::size_t peer_bytes_max(Limits const& limits) {
    auto const id_bytes = limits.id_bytes_max + node_overhead_bytes;
    auto const heartbeats_asked =
        static_cast<std::size_t>(limits.iwant_wait / limits.heartbeat_interval) + 2;
    return limits.topics_max * (limits.topic_bytes_max + node_overhead_bytes) +
           (2 + heartbeats_asked) * limits.ids_max * id_bytes + limits.outbox.queue_bytes_max +
           limits.outbox.gossip_bytes_max;
}

} // namespace exo::net::gossipsub
