// SPDX-License-Identifier: Apache-2.0
//
// How a node is to run, as the command line and the environment say (main/options.cpp).
#pragma once

#include "model/settings.hpp"
#include "storage/files/paths.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace exo::node {

struct NodeOptions {
    storage::Paths paths;
    std::string executable; // This program: started again as `exo runner`.

    bool worker = true;
    bool api = true;
    bool force_master = false;
    bool offline = false;
    bool discovery = true; // By mDNS and DNS-SD.

    std::string api_host = "127.0.0.1";
    std::uint16_t api_port = 52415;
    std::uint16_t libp2p_port = 0; // 0: that of the last start, or any free one.
    std::string network_namespace = "v0.0.1";
    bool namespace_given = false; // By a person: worth a word where it has no effect.
    std::vector<std::string> bootstrap_peers;

    std::optional<std::uint64_t> memory_limit_bytes; // At most this much for models.
    std::uint32_t micro_batch = 0;                   // Tokens; 0: the engine's default.
    std::uint32_t threads = 0;                       // 0: one a physical core.
    std::string device = "auto";                     // What a runner computes with.
    std::vector<std::string> private_networks;       // Where ranks need no cipher.
    // Of instances that this node's API asks for, where a request does not say.
    model::InstanceSettings instance_settings;
};

} // namespace exo::node
