// SPDX-License-Identifier: Apache-2.0
#include "net/diagnosis/rules.hpp"

#include <algorithm>
#include <chrono>

namespace exo::net::rules {
namespace {

constexpr std::size_t words_max = 3;

} // namespace

Neighbour const* neighbour(Situation const& situation, PeerId const& peer) {
    auto const found = std::ranges::find(situation.neighbours, peer, &Neighbour::peer);
    return found == situation.neighbours.end() ? nullptr : &*found;
}

std::string name_of(Situation const& situation, PeerId const& peer) {
    auto const* const found = neighbour(situation, peer);
    bool const has_name = found != nullptr && !found->name.empty();
    auto const id = "..." + peer.short_text();
    return has_name ? found->name + " (" + id + ")" : id;
}

std::string listed(std::span<std::string const> words) {
    bool const is_cut = words.size() > words_max + 1;
    auto const shown = is_cut ? words_max : words.size();
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
        bool const is_last = !is_cut && i + 1 == shown;
        text += i == 0 ? "" : is_last ? " and " : ", ";
        text += words[i];
    }
    return is_cut ? fmt::format("{} and {} more", text, words.size() - shown) : text;
}

std::string time_text(Duration time) {
    auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
    if (seconds < 120) {
        return fmt::format("{} s", seconds);
    }
    return seconds < 7200 ? fmt::format("{} min", seconds / 60)
                          : fmt::format("{} h", seconds / 3600);
}

bool is_on_link(LinkFacts const& link, std::string_view ip) {
    auto const other = Ip::parse(ip);
    return other && std::ranges::any_of(link.addresses, [&](InterfaceAddress const& own) {
               return own.ip.shares_prefix(*other, own.prefix_bits);
           });
}

bool is_address_of(LinkFacts const& link, std::string_view ip) {
    auto const other = Ip::parse(ip);
    return other &&
           std::ranges::find(link.addresses, *other, &InterfaceAddress::ip) != link.addresses.end();
}

bool is_network(LinkFacts const& link) {
    return link.kind != InterfaceKind::loopback && link.kind != InterfaceKind::container;
}

std::string host_and_port(Multiaddr const& address) {
    auto const target = address.tcp_target();
    if (!target) {
        return address.text();
    }
    auto const host = target->zone.empty() ? target->host : target->host + "%" + target->zone;
    bool const is_ip6 = target->host_kind == AddrPart::ip6;
    return is_ip6 ? fmt::format("[{}]:{}", host, target->port)
                  : fmt::format("{}:{}", host, target->port);
}

void append_some(Findings& to, Findings found) {
    found = worst_first(std::move(found));
    auto const count = found.size();
    auto const kept = std::min(count, findings_of_a_kind_max);
    for (auto& finding : std::span(found).first(kept)) {
        to.push_back(std::move(finding));
    }
    if (count > kept) {
        to.push_back({
            .severity = found[kept].severity,
            .code = found[kept].code,
            .message = fmt::format("{} more of this kind", count - kept),
            .remedy = "GET /network/diagnosis lists what each finding is made of",
        });
    }
}

} // namespace exo::net::rules
