// SPDX-License-Identifier: Apache-2.0
#include "main/doctor_command.hpp"

#include "main/doctor_look.hpp"
#include "main/doctor_report.hpp"
#include "main/version.hpp"
#include "net/diagnosis/document.hpp"
#include "node/options.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <unistd.h>

namespace exo::cli {
namespace {

using nlohmann::json;

constexpr int exit_ok = 0;
constexpr int exit_finding = 1;
constexpr int exit_usage = 2;

struct Flags {
    std::string api_host = node::NodeOptions().api_host;
    std::uint16_t api_port = node::NodeOptions().api_port;
    bool as_json = false;
};

// Empty: help was printed.
Result<std::optional<Flags>> parse(int argc, char** argv) {
    Flags flags;
    CLI::App app{
        "exo doctor: says why nodes do not find each other, and what to do. It asks the node of "
        "this machine, if one runs, and then looks at the network itself.",
        "exo doctor"
    };
    app.add_option("--api-host", flags.api_host, "IP address of the node's API")
        ->capture_default_str();
    app.add_option("--api-port", flags.api_port, "port of the node's API")->capture_default_str();
    app.add_flag("--json", flags.as_json, "print JSON");
    app.footer("\nExit code: 0; 1, a finding is an error; 2, a flag is wrong.");
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& error) {
        if (error.get_exit_code() == 0) {
            app.exit(error);
            return std::optional<Flags>();
        }
        return Error(
            Errc::invalid_argument,
            fmt::format("{} (exo doctor --help lists the flags)", error.what())
        );
    }
    return std::optional<Flags>(std::move(flags));
}

// What it means that there is no diagnosis of a node.
net::Finding no_node(Error const& error, Flags const& flags) {
    net::Finding finding{
        .severity = net::Severity::note,
        .code = "no_node",
        .message = "no node of this machine was asked: " + error.text(),
        .remedy = "start one (exo), or say where its API is: exo doctor --api-port PORT",
    };
    if (error.code() == Errc::protocol || error.code() == Errc::timed_out) {
        finding.severity = net::Severity::error;
        finding.code = "api_port_taken";
        finding.remedy = fmt::format(
            "another program has port {}, or an exo of another version, or one that hangs: 'ss "
            "-tlnp' names it; exo --api-port takes another port",
            flags.api_port
        );
    }
    return finding;
}

// The node's part of what is said: its document, if it gave one, and its findings.
struct NodePart {
    json document;
    std::vector<net::Finding> findings;
    std::string line;
};

NodePart without_node(Error const& error, Flags const& flags) {
    NodePart part;
    part.findings = {no_node(error, flags)};
    part.line = "without a node";
    return part;
}

NodePart part_of(Flags const& flags) {
    auto answer = ask_node(flags.api_host, flags.api_port);
    if (!answer) {
        return without_node(answer.error(), flags);
    }
    auto findings = findings_of(*answer);
    if (!findings) {
        return without_node(findings.error(), flags);
    }
    NodePart part{.findings = std::move(*findings)};
    auto const text = [&](char const* name) {
        auto const found = answer->find(name);
        return found != answer->end() && found->is_string() ? found->get<std::string>() : "?";
    };
    part.line = fmt::format("node {} at {}:{}", text("node_id"), flags.api_host, flags.api_port);
    part.document = std::move(*answer);
    return part;
}

void print_json(
    NodePart const& part, net::Situation const& look, std::vector<net::Finding> const& findings
) {
    json const document{
        {"node", part.document},
        {"interfaces", net::interfaces_document(look.network.links, look.now)},
        {"findings", net::findings_document(findings)},
    };
    auto const text = document.dump(2, ' ', false, json::error_handler_t::replace);
    std::printf("%s\n", text.c_str());
}

void print_text(
    NodePart const& part, net::Situation const& look, std::vector<net::Finding> findings
) {
    Report report;
    report.version = version;
    report.node = part.line;
    report.links = look.network.links;
    report.findings = std::move(findings);
    report.with_colour = ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
    std::fputs(text_of(report).c_str(), stdout);
}

} // namespace

int run_doctor_command(int argc, char** argv) {
    auto const flags = parse(argc, argv);
    if (!flags) {
        std::fprintf(stderr, "exo doctor: %s\n", flags.error().text().c_str());
        return exit_usage;
    }
    if (!*flags) {
        return exit_ok;
    }
    auto const part = part_of(**flags);
    auto look = look_at_network();
    if (part.document.is_object()) {
        add_peers(look, part.document);
    }
    auto findings = merged(part.findings, net::judge_links(look));
    bool const is_bad = has_error(findings);
    if ((*flags)->as_json) {
        print_json(part, look, findings);
    } else {
        print_text(part, look, std::move(findings));
    }
    return is_bad ? exit_finding : exit_ok;
}

} // namespace exo::cli
