// SPDX-License-Identifier: Apache-2.0
//
// What a node says of itself by DNS-SD (RFC 6763), service `_exo._tcp.local`: the names of its
// records and the strings of its TXT record. For people and their tools (avahi-browse, dns-sd), and
// for other nodes, which dial the addresses in it. Anybody on the local network can write such a
// record: nothing in it is believed before the handshake of a connection has shown it. Pure.
#pragma once

#include "base/result.hpp"
#include "net/crypto/psk.hpp"
#include "net/wire/multiaddr.hpp"
#include "net/wire/peer_id.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exo::net::dnssd {

constexpr char const* service_type = "_exo._tcp";
constexpr char const* domain = "local";
constexpr std::uint16_t default_port = 52415; // The API's.
// Of all our records: a node that died without a good-bye is gone after it.
constexpr std::uint32_t ttl_s = 180;

// Of one string, by its form on the wire.
constexpr std::size_t text_bytes_max = 255;
// Of all strings with their lengths: the record fits one Ethernet frame, with its names and the
// other records of an answer (RFC 6763 6.2).
constexpr std::size_t texts_bytes_max = 1300;
// Of a TXT record that we read; RFC 6763 6.2 calls more than 1300 bytes bad manners.
constexpr std::size_t texts_bytes_read_max = 4096;
// Of one interface: IPv4, and a few that IPv6 gives itself.
constexpr std::size_t addresses_max = 8;
// Of a label of a name: what people see as the name of the instance.
constexpr std::size_t label_bytes_max = 63;

struct Announcement {
    std::string device_id; // The peer id, in text.
    std::string os_type;   // "linux" or "macos".
    std::uint64_t memory_bytes = 0;
    std::uint64_t gpu_memory_bytes = 0; // 0: none that exo knows of.
    bool rdma_support = false;
    std::string version;
    std::string network; // network_hash().
    std::string api;     // Who can use the port of the SRV record: "lan", "local" or "none".
    // Where to dial, the best first, each with /p2p/<device_id>.
    std::vector<Multiaddr> addresses;
    bool operator==(Announcement const&) const = default;
};

// Tells networks apart, and says nothing of the key: 16 hex digits of a hash of it. A namespace
// that is easy to guess can be found by trying; a secret of 32 random bytes cannot. Of a public
// network: "public".
[[nodiscard]] std::string network_hash(std::optional<Psk> const& psk);

// "key=value" each. Addresses that do not fit are left out, the last first. REQUIRES: values of
// ours, of at most text_bytes_max bytes with their key.
[[nodiscard]] std::vector<std::string> encode_txt(Announcement const& announcement);

// Unknown keys, unreadable values, and addresses of other peers than device_id are passed over.
// Errors: limit (too long); protocol (no device_id or no network: not a node of ours).
[[nodiscard]] Result<Announcement> decode_txt(std::vector<std::string> const& texts);

// The name to try after `number - 1` others were taken: "macbook-pro", "macbook-pro-2", ... Shorter
// where a label has no room. REQUIRES: number > 0.
[[nodiscard]] std::string numbered_name(std::string_view name, unsigned number);

// A name for people, made fit for a label: valid UTF-8 without control characters, of at most 63
// bytes; "exo" where nothing is left.
[[nodiscard]] std::string instance_name(std::string_view name);

// The host that the SRV record names, "exo-<end of the peer id>": of this node alone, so that it
// does not meddle with the name that the machine itself has (avahi-daemon).
[[nodiscard]] std::string host_label(PeerId const& peer);

// Where the listening addresses `listen` can be reached through an interface with these addresses,
// for Announcement::addresses: link-local ones after the others.
[[nodiscard]] std::vector<Multiaddr> announced_addresses(
    std::vector<Multiaddr> const& listen, std::vector<std::string> ips, PeerId const& self
);

} // namespace exo::net::dnssd
