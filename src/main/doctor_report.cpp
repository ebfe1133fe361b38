// SPDX-License-Identifier: Apache-2.0
#include "main/doctor_report.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>

namespace exo::cli {
namespace {

using net::Finding;
using net::Severity;

constexpr std::array severities{Severity::ok, Severity::note, Severity::warning, Severity::error};

Severity severity_of(std::string const& name) {
    auto const found = std::ranges::find_if(severities, [&](Severity severity) {
        return name == net::to_string(severity);
    });
    return found == severities.end() ? Severity::note : *found;
}

char const* colour_of(Severity severity) {
    switch (severity) {
    case Severity::ok:
        return "\x1b[32m";
    case Severity::note:
        return "\x1b[36m";
    case Severity::warning:
        return "\x1b[33m";
    case Severity::error:
        return "\x1b[31m";
    }
    return "";
}

std::string label_of(Severity severity, bool with_colour) {
    auto const label = fmt::format("{:<8}", net::to_string(severity));
    return with_colour ? fmt::format("{}{}\x1b[0m", colour_of(severity), label) : label;
}

std::string heard_of(net::LinkFacts const& link) {
    if (!link.error.empty()) {
        return link.error;
    }
    constexpr std::size_t shown_max = 3;
    std::string text;
    std::size_t shown = 0;
    for (auto const& [ip, last] : link.heard) {
        if (shown++ == shown_max) {
            return fmt::format("{} and {} more", text, link.heard.size() - shown_max);
        }
        text += (text.empty() ? "" : " ") + ip;
    }
    return text.empty() ? "-" : text;
}

using Row = std::array<std::string, 6>;

std::vector<Row> table_of(std::vector<net::LinkFacts> const& links) {
    std::vector<Row> rows{{"interface", "kind", "address", "sent", "back", "answered by"}};
    for (auto const& link : links) {
        rows.push_back({
            link.interface,
            net::to_string(link.kind),
            link.addresses.empty() ? "-" : link.addresses.front().text,
            std::to_string(link.packets_sent),
            std::to_string(link.packets_looped),
            heard_of(link),
        });
    }
    return rows;
}

std::string aligned(std::vector<Row> const& rows) {
    std::array<std::size_t, std::tuple_size_v<Row>> widths{};
    for (auto const& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (auto const& row : rows) {
        for (std::size_t i = 0; i + 1 < row.size(); ++i) {
            text += fmt::format("{:<{}}  ", row[i], widths[i]);
        }
        text += row.back() + "\n";
    }
    return text;
}

} // namespace

Result<std::vector<Finding>> findings_of(nlohmann::json const& document) {
    std::vector<Finding> findings;
    try {
        for (auto const& one : document.at("findings")) {
            findings.push_back({
                .severity = severity_of(one.at("severity").get<std::string>()),
                .code = one.at("code").get<std::string>(),
                .message = one.at("message").get<std::string>(),
                .remedy = one.at("remedy").get<std::string>(),
            });
        }
    } catch (nlohmann::json::exception const& error) {
        return Error(Errc::protocol, fmt::format("not a diagnosis of exo: {}", error.what()));
    }
    return findings;
}

std::vector<Finding> merged(std::vector<Finding> of_node, std::vector<Finding> of_look) {
    std::erase_if(of_look, [&](Finding const& finding) {
        return std::ranges::find(of_node, finding.code, &Finding::code) != of_node.end();
    });
    std::ranges::move(of_look, std::back_inserter(of_node));
    return net::worst_first(std::move(of_node));
}

void add_peers(net::Situation& look, nlohmann::json const& document) {
    auto const add = [&look](nlohmann::json const& peer) {
        auto const id = net::PeerId::parse(peer.at("peer_id").get<std::string>());
        auto const name = peer.at("name").get<std::string>(); // Null of those that are no exo.
        for (auto const& connection : peer.at("connections")) {
            if (id) {
                auto ip = connection.at("remote_ip").get<std::string>();
                look.neighbours.push_back({.peer = *id, .name = name});
                look.network.connections.push_back({.peer = *id, .remote_ip = std::move(ip)});
            }
        }
    };
    auto const said = findings_of(document);
    auto const is_off = [](Finding const& finding) { return finding.code == "discovery_off"; };
    look.with_discovery = !said || std::ranges::none_of(*said, is_off);
    auto const peers = document.find("peers");
    if (peers == document.end() || !peers->is_array()) {
        return;
    }
    for (auto const& peer : *peers) {
        try {
            add(peer);
        } catch (nlohmann::json::exception const&) {
            continue;
        }
    }
}

std::string text_of(Report const& report) {
    auto text = fmt::format("exo doctor {}\n{}\n\n", report.version, in_one_line(report.node));
    if (!report.links.empty()) {
        text += aligned(table_of(report.links)) + "\n";
    }
    for (auto const& finding : report.findings) {
        text += fmt::format(
            "{}  {}\n", label_of(finding.severity, report.with_colour), in_one_line(finding.message)
        );
        if (!finding.remedy.empty()) {
            text += fmt::format("{:<8}  -> {}\n", "", in_one_line(finding.remedy));
        }
    }
    return text;
}

bool has_error(std::vector<Finding> const& findings) {
    return std::ranges::find(findings, Severity::error, &Finding::severity) != findings.end();
}

} // namespace exo::cli
