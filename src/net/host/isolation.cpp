// SPDX-License-Identifier: Apache-2.0
#include "net/host/isolation.hpp"

#include "net/mdns/links.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

namespace exo::net {
namespace {

constexpr std::size_t bootstrap_peers_named_max = 4;

std::string asked_by_multicast(std::span<Interface const> interfaces) {
    std::vector<std::string> names;
    auto const links = mdns::choose_links({interfaces.begin(), interfaces.end()});
    for (auto const& [id, link] : links.chosen) { // The families of an interface in a row.
        bool const is_named = !names.empty() && names.back() == link.name;
        if (link.kind != InterfaceKind::loopback && !is_named) {
            names.push_back(link.name);
        }
    }
    if (names.empty()) {
        return "there is no network interface that can multicast";
    }
    return fmt::format(
        "asked by multicast (224.0.0.251 and ff02::fb, UDP port 5353) on {}", fmt::join(names, ", ")
    );
}

std::string asked_bootstrap_peers(std::span<DialFacts const> dials) {
    std::vector<std::string> told;
    for (auto const& dial : dials) {
        if (dial.given && told.size() < bootstrap_peers_named_max) {
            auto const why = dial.error.empty() ? "no answer yet" : dial.error;
            told.push_back(fmt::format("{} ({})", dial.address.text(), why));
        }
    }
    return told.empty() ? "" : fmt::format("; bootstrap peers: {}", fmt::join(told, ", "));
}

} // namespace

Isolation::Word Isolation::look(std::size_t peers, TimePoint now) {
    if (peers > 0) {
        has_peers_ = true;
        next_ = TimePoint::max();
        return std::exchange(told_, false) ? Word::ended : Word::nothing;
    }
    if (std::exchange(has_peers_, false)) {
        next_ = now + grace;
    }
    if (now < next_) {
        return Word::nothing;
    }
    next_ = now + repeat;
    return std::exchange(told_, true) ? Word::goes_on : Word::begins;
}

std::string isolation_text(
    bool uses_mdns, std::span<Interface const> interfaces, std::span<DialFacts const> dials
) {
    return fmt::format(
        "this node has found no other one: {}{}. It keeps trying. If there are others: do they "
        "have the same --namespace, and does the network let multicast through? "
        "--bootstrap-peers HOST:PORT of one of them does without multicast; `exo doctor` looks "
        "closer",
        uses_mdns ? asked_by_multicast(interfaces) : "multicast is switched off",
        asked_bootstrap_peers(dials)
    );
}

} // namespace exo::net
