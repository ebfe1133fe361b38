// SPDX-License-Identifier: Apache-2.0
#include "core/placement/nodes.hpp"

#include "base/text.hpp"
#include "core/placement/memory.hpp"
#include "core/placement/placement.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace exo::placement {
namespace {

using namespace model;

constexpr std::size_t hosts_max = 16; // Addresses of one node; a connect tries them all.

std::string label_of(NodeId const& id, NodeInfo const* info) {
    if (info == nullptr || info->identity.friendly_name == NodeIdentity{}.friendly_name) {
        return id.value();
    }
    // Two machines may have one name; the end of a peer id tells them apart.
    constexpr std::size_t tail = 6;
    std::string const& text = id.value();
    std::string const end = text.size() > tail ? text.substr(text.size() - tail) : text;
    return info->identity.friendly_name + " (" + end + ")";
}

// For the draft model that the instance has on its rank 0, if that is this node.
std::uint64_t promised_draft_bytes(Instance const& instance, NodeInfo const& node) {
    auto const& draft = settings(instance).draft_model;
    RunnerId const& runner = *runner_of(instance, node.node_id);
    auto const shard = shard_assignments(instance).runner_to_shard.find(runner);
    if (!draft || shard == shard_assignments(instance).runner_to_shard.end() ||
        device_rank(shard->second) != 0) {
        return 0;
    }
    auto const card = std::ranges::find(node.models, *draft, &ModelCard::model_id);
    return card == node.models.end() ? 0 : draft_bytes(*card, context_length(instance));
}

// Memory on `node` that instances will take and have not taken yet, as far as State tells.
std::uint64_t promised_bytes(State const& state, NodeInfo const& node) {
    std::uint64_t promised = 0;
    for (auto const& [id, instance] : state.instances) {
        RunnerId const* const runner = runner_of(instance, node.node_id);
        if (runner == nullptr) {
            continue;
        }
        auto const status = state.runners.find(*runner);
        if (status == state.runners.end() || !serves(status->second)) {
            promised = saturating_add(promised, memory_bytes_needed(instance, *runner));
            promised = saturating_add(promised, promised_draft_bytes(instance, node));
        }
    }
    return promised;
}

// Cables before radio; container, virtual and loopback addresses last (field-reports.md 6).
int preference(NetworkInterface const& interface) {
    constexpr std::array virtual_names{
        "docker", "veth", "br-", "virbr", "tun", "tap", "utun", "wg", "tailscale", "zt", "cni"
    };
    std::string const& name = interface.name;
    std::string const& ip = interface.ip_address;
    if (ip.starts_with("127.") || ip == "::1") {
        return 6;
    }
    if (std::ranges::any_of(virtual_names, [&](auto prefix) { return name.starts_with(prefix); })) {
        return 5;
    }
    constexpr std::array kinds{"thunderbolt", "ethernet", "maybe_ethernet", "wifi"};
    auto const kind = std::ranges::find(kinds, interface.interface_type);
    // An unknown kind is mostly a cable (Linux does not always tell).
    return kind == kinds.end() ? 2 : static_cast<int>(kind - kinds.begin());
}

std::vector<Host> hosts_of(NodeInfo const& info) {
    std::vector<std::pair<int, std::size_t>> order; // By preference, then as the node has them.
    for (std::size_t i = 0; i < info.interfaces.size(); ++i) {
        order.emplace_back(preference(info.interfaces[i]), i);
    }
    std::ranges::sort(order);
    std::vector<Host> hosts;
    for (auto const& [rank, i] : order) {
        Host const host{.ip = info.interfaces[i].ip_address};
        if (hosts.size() < hosts_max && std::ranges::count(hosts, host) == 0) {
            hosts.push_back(host);
        }
    }
    return hosts;
}

// Empty if the node can take part.
std::string why_not(
    State const& state,
    NodeId const& id,
    NodeInfo const* info,
    std::set<NodeId> const& heard,
    ModelCard const& card
) {
    if (!heard.contains(id)) {
        return "was not heard in the last seconds";
    }
    if (!state.members.contains(id)) {
        return "is still joining the cluster";
    }
    if (info == nullptr) {
        return "has not told its memory yet";
    }
    if (!info->worker) {
        return "runs no models (--no-worker)";
    }
    if (std::ranges::find(info->models, card.model_id, &ModelCard::model_id) ==
        info->models.end()) {
        return "does not have the model on its disk";
    }
    return {};
}

} // namespace

Nodes consider(
    State const& state,
    Observations const& observations,
    std::set<NodeId> const& heard,
    ModelCard const& card
) {
    std::set<NodeId> ids;
    for (auto const& [id, member] : state.members) {
        ids.insert(id);
    }
    for (auto const& [id, info] : observations) {
        ids.insert(id);
    }
    Nodes nodes;
    for (auto const& id : ids) {
        auto const found = observations.find(id);
        NodeInfo const* const info = found == observations.end() ? nullptr : &found->second;
        std::string label = label_of(id, info);
        std::string const reason = why_not(state, id, info, heard, card);
        if (!reason.empty()) {
            nodes.excluded.push_back(label + " " + reason);
            continue;
        }
        std::uint64_t const available = info->memory.ram_available.in_bytes;
        std::uint64_t const promised = std::min(available, promised_bytes(state, *info));
        nodes.eligible.push_back(
            {.id = id,
             .label = std::move(label),
             .free_bytes = available - promised,
             .promised_bytes = promised,
             .hosts = hosts_of(*info)}
        );
    }
    std::ranges::sort(nodes.eligible, [](Node const& a, Node const& b) {
        return a.free_bytes != b.free_bytes ? a.free_bytes > b.free_bytes : a.id < b.id;
    });
    return nodes;
}

} // namespace exo::placement
