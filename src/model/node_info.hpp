// SPDX-License-Identifier: Apache-2.0
//
// What each node says of itself: soft state, last writer by (boot, sequence), gossiped, never
// logged. It informs decisions; it never decides what exists.
#pragma once

#include "model/card.hpp"
#include "model/ids.hpp"

#include <map>
#include <string>
#include <vector>

namespace exo::model {

struct NodeIdentity {
    std::string model_id = "Unknown";
    std::string chip_id = "Unknown";
    std::string friendly_name = "Unknown";
    std::string os_version = "Unknown";
    std::string os_build_version = "Unknown";
    std::string exo_version;

    bool operator==(NodeIdentity const&) const = default;
};

struct NodeMemory {
    Memory ram_total;
    Memory ram_available; // After --memory-limit, cgroup limits and a reserve for the system.
    Memory swap_total;
    Memory swap_available;

    bool operator==(NodeMemory const&) const = default;
};

struct NodeDisk {
    Memory total;
    Memory available;

    bool operator==(NodeDisk const&) const = default;
};

struct NetworkInterface {
    std::string name;
    std::string ip_address;
    std::string interface_type = "unknown"; // wifi, ethernet, maybe_ethernet, thunderbolt, unknown

    bool operator==(NetworkInterface const&) const = default;
};

// A live connection of the reporting node: to `peer` at `address` (a multiaddr).
struct NodeLink {
    NodeId peer;
    std::string address;

    bool operator==(NodeLink const&) const = default;
};

struct NodeInfo {
    NodeId node_id;
    Boot boot = 0;
    std::uint64_t sequence = 0;
    NodeIdentity identity;
    NodeMemory memory;
    NodeDisk disk;
    std::vector<NetworkInterface> interfaces;
    std::vector<NodeLink> links;
    std::vector<ModelCard> models; // Whole models on this node's disk.
    std::uint16_t api_port = 0;    // 0: no API on this node.
    bool worker = true;            // False with --no-worker: never placed upon.

    bool operator==(NodeInfo const&) const = default;
};

using Observations = std::map<NodeId, NodeInfo>;

} // namespace exo::model
