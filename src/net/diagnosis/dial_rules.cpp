// SPDX-License-Identifier: Apache-2.0
//
// Why an address cannot be used. The kind of a failure is read off the words of its error: those of
// the operating system are compared with its own words, so they are right on every platform.
#include "net/diagnosis/rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>

namespace exo::net::rules {
namespace {

// By how far it got.
enum class Failure {
    unknown_name,
    no_route,
    no_answer,
    nothing_listens,
    other_peer,
    other_network
};

bool says(std::string const& error, std::string_view words) {
    return error.find(words) != std::string::npos;
}

bool says(std::string const& error, std::errc code) {
    return says(error, std::make_error_code(code).message());
}

Failure failure_of(std::string const& error) {
    if (says(error, "cannot resolve") || says(error, "no address of the wanted kind")) {
        return Failure::unknown_name;
    }
    if (says(error, "cannot connect")) {
        if (says(error, std::errc::connection_refused)) {
            return Failure::nothing_listens;
        }
        return says(error, std::errc::timed_out) ? Failure::no_answer : Failure::no_route;
    }
    if (says(error, "no answer") || says(error, "there is no interface")) {
        return says(error, "no answer") ? Failure::no_answer : Failure::no_route;
    }
    return says(error, " was called, ") ? Failure::other_peer : Failure::other_network;
}

// All addresses of one peer, or the one that people gave.
struct Target {
    std::vector<DialFacts const*> dials;
    bool given = false;
};

struct Words {
    char const* code;
    char const* what;
    char const* remedy;
};

// In the order of Failure.
constexpr std::array<Words, 6> words_of{{
    {"unknown_name", "its name has no address", "correct the name, or write the IP address"},
    {"no_route",
     "there is no way to it",
     "both machines must share a network: check cable, Wi-Fi, VPN and the address"},
    {"no_answer",
     "nothing answers",
     "a firewall drops TCP there, or it is another network: let exo's port in (fix it with "
     "--libp2p-port) and check the address"},
    {"nothing_listens",
     "the machine answers, but nothing listens at that port",
     "start exo there, or correct the port: 'exo cluster status' there prints it (without "
     "--libp2p-port it is chosen once and kept)"},
    {"other_peer",
     "another node answers there",
     "leave out /p2p/... where the node may have a new identity, or correct the address"},
    {"other_network",
     "it answers, but does not speak our protocol or has another namespace or secret",
     "start both with the same version and --namespace, or join both to one private cluster (exo "
     "cluster join TOKEN)"},
}};

Failure best_failure(Target const& target) {
    auto best = Failure::unknown_name;
    for (auto const* dial : target.dials) {
        best = std::max(best, failure_of(dial->error));
    }
    return best;
}

// A local address that macOS says it has no route to: it has, and keeps it from us.
bool is_kept_by_macos(Situation const& situation, Target const& target) {
    return situation.is_macos && std::ranges::any_of(target.dials, [&](DialFacts const* dial) {
               auto const host = dial->address.tcp_target();
               return host && says(dial->error, std::errc::host_unreachable) &&
                      std::ranges::any_of(situation.network.links, [&](LinkFacts const& link) {
                          return is_on_link(link, host->host);
                      });
           });
}

Severity severity_of(Situation const& situation, Target const& target, Failure failure) {
    if (target.given) {
        return if_isolated(situation, Severity::error, Severity::warning);
    }
    bool const was_here =
        std::ranges::any_of(target.dials, [](DialFacts const* dial) { return dial->reached; });
    // A node that has stopped, another cluster in the same room: both are nobody's fault.
    bool const is_usual = was_here || failure >= Failure::nothing_listens;
    return if_isolated(situation, Severity::warning, is_usual ? Severity::note : Severity::warning);
}

std::string subject(Situation const& situation, Target const& target) {
    std::vector<std::string> addresses;
    for (auto const* dial : target.dials) {
        addresses.push_back(host_and_port(dial->address));
    }
    auto const& peer = target.dials.front()->peer;
    auto const at = listed(addresses);
    if (target.given) {
        return "bootstrap peer " + at;
    }
    return peer ? fmt::format("peer {} at {}", name_of(situation, *peer), at) : "the node at " + at;
}

Finding finding_of(Situation const& situation, Target const& target) {
    auto const failure = best_failure(target);
    auto const& words = words_of[static_cast<std::size_t>(failure)];
    Finding finding{
        .severity = severity_of(situation, target, failure),
        .code = words.code,
        .remedy = words.remedy,
    };
    // The error that the words are of.
    auto const* dial = *std::ranges::find_if(target.dials, [&](DialFacts const* one) {
        return failure_of(one->error) == failure;
    });
    finding.message = fmt::format(
        "{} was not reached: {} ({} tries; {})",
        subject(situation, target),
        words.what,
        dial->failures,
        dial->error
    );
    if (is_kept_by_macos(situation, target)) {
        finding.code = "local_network_permission";
        finding.remedy = local_network_permission;
    }
    if (failure == Failure::other_network) {
        finding.remedy = fmt::format("{} (here: '{}')", finding.remedy, situation.network_name);
    }
    return finding;
}

// Once may be chance, or a peer that was still starting; what people gave is said at once.
bool is_failing(DialFacts const& dial) {
    return !dial.connected && !dial.error.empty() && dial.failures >= (dial.given ? 1u : 2u);
}

} // namespace

void unreachable(Situation const& situation, Findings& to) {
    if (!has_lasted(situation, situation.started)) {
        return;
    }
    std::map<std::string, Target> targets;
    for (auto const& dial : situation.network.dials) {
        if (!is_failing(dial) || is_twin(dial)) {
            continue;
        }
        bool const alone = dial.given || !dial.peer;
        auto& target = targets[alone ? dial.address.text() : dial.peer->text()];
        target.given = dial.given;
        target.dials.push_back(&dial);
    }
    Findings found;
    for (auto const& [key, target] : targets) {
        found.push_back(finding_of(situation, target));
    }
    append_some(to, std::move(found));
}

} // namespace exo::net::rules
