// SPDX-License-Identifier: Apache-2.0
#include "net/diagnosis/diagnosis.hpp"

#include "net/diagnosis/rules.hpp"

#include <utility>

namespace exo::net {
namespace {

struct Rule {
    void (*find)(Situation const&, std::vector<Finding>&);
    bool is_of_links = false; // Of the interfaces alone: it needs no node that runs.
};

// The likeliest cause first.
constexpr Rule all_rules[] = {
    {rules::company},
    {rules::same_key},
    {rules::only_loopback},
    {rules::discovery_off},
    {rules::no_interface, true},
    {rules::cannot_send, true},
    {rules::not_returned, true},
    {rules::blocked, true},
    {rules::silent, true},
    {rules::left_out, true},
    {rules::unreachable},
    {rules::other_network},
    {rules::other_version},
    {rules::refused},
    {rules::missing_links},
    {rules::behind_nat},
    {rules::heard, true},
};

std::vector<Finding> found(Situation const& situation, bool of_links_only) {
    std::vector<Finding> findings;
    for (auto const& rule : all_rules) {
        if (rule.is_of_links || !of_links_only) {
            rule.find(situation, findings);
        }
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
    return found(situation, false);
}

std::vector<Finding> judge_links(Situation const& situation) {
    return found(situation, true);
}

} // namespace exo::net
