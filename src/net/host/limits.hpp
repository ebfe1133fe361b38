// SPDX-License-Identifier: Apache-2.0
//
// What a Host takes of strangers and peers, with defaults: part of its configuration. What the
// protocols themselves fix (the size of a Noise message, of a multistream line) is not here but
// with them.
#pragma once

#include "base/time.hpp"
#include "net/yamux/limits.hpp"

#include <cstddef>

namespace exo::net {

struct HostLimits {
    // Inbound connections that have not proven who they are. All together: more than a cluster has
    // nodes to come at once. From one address: several nodes may share one (containers behind NAT).
    // A newcomer beyond it takes the place of the oldest: an honest handshake takes milliseconds.
    std::size_t pending_max = 64;
    std::size_t pending_per_ip_max = 16;

    // Connections with peers; rust's default is unlimited, and a cluster has tens of nodes.
    std::size_t connections_max = 128;

    // Of everything from the first byte up to the muxer, as in rust: a wrong PSK may show as
    // silence. Name resolution and TCP connect get as long again.
    Duration upgrade_timeout = 10s;
    // Of one TCP connect: a LAN answers in milliseconds, and the SYN is repeated after 1 and 3 s.
    Duration connect_timeout = 4s;
    // Of agreeing on a stream's protocol, and of identify: what open_stream() promises, and more
    // than any answer takes.
    Duration negotiation_timeout = 10s;

    // Streams, their windows and the keep-alive of one connection.
    yamux::Limits mux;
};

} // namespace exo::net
