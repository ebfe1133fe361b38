// SPDX-License-Identifier: Apache-2.0
//
// What a peer says of itself on `/ipfs/id/1.0.0` (specs/libp2p.md 7): whoever opens the stream
// reads one message, prefixed with its length, and the other side closes. The same message comes
// unasked on `/ipfs/id/push/1.0.0`. go gossips only with peers whose protocols it knows by this.
// Pure; driven by the host.
#pragma once

#include "base/bytes.hpp"
#include "net/identify/limits.hpp"
#include "net/wire/multiaddr.hpp"
#include "net/wire/public_key.hpp"

#include <optional>
#include <string>
#include <vector>

namespace exo::net::identify {

constexpr char const* protocol = "/ipfs/id/1.0.0";
constexpr char const* push_protocol = "/ipfs/id/push/1.0.0";

// What we send: rust reads no more.
constexpr std::size_t message_sent_bytes_max = 4096;

struct Message {
    std::optional<PublicKey> public_key; // Empty also for a key of another type than Ed25519.
    std::vector<Multiaddr> listen;       // Those that we can dial.
    std::vector<std::string> protocols;
    std::optional<Multiaddr> observed; // Where the sender sees us.
    std::string protocol_version;
    std::string agent_version;
    bool operator==(Message const&) const = default;
};

// Without the length prefix. Listening addresses that would exceed `message_sent_bytes_max` are
// left out, the last first. REQUIRES: the rest fits.
[[nodiscard]] Bytes encode(Message const& message);

// Takes fields in any order and skips what it does not know, also addresses.
// Errors: protocol, limit.
[[nodiscard]] Result<Message> decode(BytesView bytes, Limits const& limits = {});

// What a push says replaces what was known; of what it does not say nothing changes (it may hold
// only the fields that are new).
void update(Message& known, Message push);

} // namespace exo::net::identify
