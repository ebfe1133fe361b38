// SPDX-License-Identifier: Apache-2.0
//
// What `exo doctor` looks at: the node of this machine, and its network without the node.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "net/diagnosis/diagnosis.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace exo::cli {

// A node of this machine answers at once.
constexpr Duration node_time = 3s;
// RFC 6762 lets an answer wait for half a second at most.
constexpr Duration listen_time = 2s;

// GET http://HOST:PORT/network/diagnosis. Errors: unavailable (nobody listens there), timed_out,
// protocol (it is no exo, or one of another version).
[[nodiscard]] Result<nlohmann::json> ask_node(std::string const& host, std::uint16_t port);

// Asks by multicast on every interface, as a node does, and for any other service as well; listens
// for listen_time. Announces nothing.
[[nodiscard]] net::Situation look_at_network();

} // namespace exo::cli
