// SPDX-License-Identifier: Apache-2.0
#include "net/peers/message.hpp"

#include "net/peers/peers.pb.h"

#include <fmt/core.h>

#include <algorithm>

namespace exo::net::peers {
namespace {

Error over_limit(char const* what, std::size_t count, std::size_t limit) {
    return {Errc::limit, fmt::format("peers: {} {}; {} is the limit", count, what, limit)};
}

} // namespace

Bytes encode(Addresses const& addresses) {
    pb::Peers out;
    for (auto const& [peer, known] : addresses) {
        if (static_cast<std::size_t>(out.peers_size()) == peers_max) {
            break;
        }
        auto& entry = *out.add_peers();
        entry.set_id(std::string(as_text(peer.bytes())));
        for (auto const& address : known) {
            if (static_cast<std::size_t>(entry.addresses_size()) == addresses_per_peer_max) {
                break;
            }
            entry.add_addresses(std::string(as_text(address.bytes())));
        }
        if (out.ByteSizeLong() > message_bytes_max) {
            out.mutable_peers()->RemoveLast();
            break;
        }
    }
    auto const text = out.SerializeAsString();
    return {text.begin(), text.end()};
}

Result<Addresses> decode(BytesView bytes) {
    if (bytes.size() > message_bytes_max) {
        return over_limit("bytes", bytes.size(), message_bytes_max);
    }
    pb::Peers in;
    if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        return Error(Errc::protocol, fmt::format("peers: {} bytes are no message", bytes.size()));
    }
    if (static_cast<std::size_t>(in.peers_size()) > peers_max) {
        return over_limit("peers", static_cast<std::size_t>(in.peers_size()), peers_max);
    }
    Addresses result;
    for (auto const& entry : in.peers()) {
        auto const peer = PeerId::from_bytes(as_bytes(entry.id()));
        if (!peer) {
            return Error(Errc::protocol, "peers: " + peer.error().text());
        }
        auto const count = static_cast<std::size_t>(entry.addresses_size());
        auto& known = result[*peer];
        if (known.size() + count > addresses_per_peer_max) {
            return over_limit("addresses of a peer", count, addresses_per_peer_max);
        }
        for (auto const& address_bytes : entry.addresses()) {
            auto const address = Multiaddr::from_bytes(as_bytes(address_bytes));
            if (address && address->tcp_target()) {
                known.push_back(address->without_peer());
            }
        }
    }
    return result;
}

} // namespace exo::net::peers
