// SPDX-License-Identifier: Apache-2.0
//
// What `exo doctor` says to people, of what it saw itself and what the node has answered. Pure.
#pragma once

#include "base/result.hpp"
#include "net/diagnosis/diagnosis.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace exo::cli {

// The findings of a diagnosis document, as a node has sent it. Error: protocol, when it has another
// shape.
[[nodiscard]] Result<std::vector<net::Finding>> findings_of(nlohmann::json const& document);

// Those of the node, and of the doctor's own look what the node does not say already.
[[nodiscard]] std::vector<net::Finding>
merged(std::vector<net::Finding> of_node, std::vector<net::Finding> of_look);

// The exo nodes that the node says it is connected with, for judging what was heard of them, and
// whether it uses multicast. What cannot be read is left out.
void add_peers(net::Situation& look, nlohmann::json const& document);

struct Report {
    std::string version;
    std::string node; // One line: which node answered, or that none did.
    std::vector<net::LinkFacts> links;
    std::vector<net::Finding> findings;
    bool with_colour = false;
};

// One line an interface, then one line a finding with its remedy below.
[[nodiscard]] std::string text_of(Report const& report);

[[nodiscard]] bool has_error(std::vector<net::Finding> const& findings);

} // namespace exo::cli
