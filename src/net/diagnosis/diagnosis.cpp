// SPDX-License-Identifier: Apache-2.0
#include "net/diagnosis/diagnosis.hpp"

#include "net/diagnosis/rules.hpp"

#include <span>
#include <utility>

namespace exo::net {
namespace {

using Rule = void (*)(Situation const&, std::vector<Finding>&);

constexpr Rule link_rules[] = {
    rules::no_interface,
    rules::cannot_send,
    rules::not_returned,
    rules::blocked,
    rules::silent,
    rules::left_out,
    rules::heard,
};

// The likeliest cause first.
constexpr Rule all_rules[] = {
    rules::company,
    rules::same_key,
    rules::only_loopback,
    rules::discovery_off,
    rules::no_interface,
    rules::cannot_send,
    rules::not_returned,
    rules::blocked,
    rules::silent,
    rules::left_out,
    rules::unreachable,
    rules::other_network,
    rules::other_version,
    rules::refused,
    rules::missing_links,
    rules::behind_nat,
    rules::heard,
};

std::vector<Finding> found_by(std::span<Rule const> rules, Situation const& situation) {
    std::vector<Finding> findings;
    for (auto const rule : rules) {
        rule(situation, findings);
    }
    return worst_first(std::move(findings));
}

} // namespace

char const* to_string(Severity severity) {
    switch (severity) {
    case Severity::ok:
        return "ok";
    case Severity::note:
        return "note";
    case Severity::warning:
        return "warning";
    case Severity::error:
        return "error";
    }
    return "";
}

// clang-19 warns of libstdc++ 12's own stable_sort.
std::vector<Finding> worst_first(std::vector<Finding> findings) {
    std::vector<Finding> sorted;
    for (auto const severity : {Severity::error, Severity::warning, Severity::note, Severity::ok}) {
        for (auto& finding : findings) {
            if (finding.severity == severity) {
                sorted.push_back(std::move(finding));
            }
        }
    }
    return sorted;
}

std::vector<Finding> judge(Situation const& situation) {
    return found_by(all_rules, situation);
}

std::vector<Finding> judge_links(Situation const& situation) {
    return found_by(link_rules, situation);
}

} // namespace exo::net
