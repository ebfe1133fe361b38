// SPDX-License-Identifier: Apache-2.0
#include "main/options.hpp"

#include "base/text.hpp"
#include "collective/tcp/network.hpp"
#include "main/version.hpp"
#include "runner/settings_flags/settings_flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

namespace exo::cli {
namespace {

constexpr char const* environment_help = R"(
Commands:
  exo cluster   private clusters: create, join, leave (exo cluster --help)
  exo doctor    why nodes do not find each other (exo doctor --help)

Environment (a flag wins over its variable):
  EXO_HOME                   all files of this node under one directory
  EXO_DEFAULT_MODELS_DIR     where models are kept
  EXO_MODELS_DIRS            more directories with models, separated by ':'
  EXO_MODELS_READ_ONLY_DIRS  the same, never written to
  EXO_LIBP2P_NAMESPACE       --namespace
  EXO_BOOTSTRAP_PEERS        --bootstrap-peers
  EXO_OFFLINE                --offline, when 1, true or yes

A GGUF file in a models directory is a model; GET /v1/models lists them.)";

std::string variable(char const* name) {
    char const* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool is_true(std::string const& text) {
    auto const lower = to_lower(text);
    return lower == "1" || lower == "true" || lower == "yes";
}

std::vector<std::string> without_empty(std::vector<std::string> parts) {
    std::erase(parts, "");
    return parts;
}

// What the flags write to, before checks.
struct Flags {
    bool no_worker = false;
    bool no_api = false;
    bool no_downloads = false;
    bool no_discovery = false;
    bool spawn_api = false;
    int verbosity = 0;
    std::string memory_limit;
    std::string bootstrap_peers;
    std::string draft_model;
};

std::string is_network(std::string const& text) {
    auto const network = collective::Network::parse(text);
    return network ? std::string() : std::string(network.error().text());
}

void add_flags(CLI::App& app, Flags& flags, node::NodeOptions& options) {
    app.add_flag("--no-worker", flags.no_worker, "run no models on this node");
    app.add_flag("--no-api", flags.no_api, "serve no HTTP API on this node");
    app.add_flag("--no-downloads", flags.no_downloads, "fetch no models to this node");
    app.add_flag("--spawn-api", flags.spawn_api, "serve the HTTP API (the default)");
    app.add_flag("--force-master,-m", options.force_master, "win every election");
    app.add_option("--api-host", options.api_host, "address that the API binds")
        ->capture_default_str();
    app.add_option("--api-port", options.api_port, "port of the API; 0: any free one")
        ->capture_default_str();
    app.add_option(
           "--libp2p-port",
           options.libp2p_port,
           "port for other nodes; 0: that of the last start, or any free one"
    )
        ->capture_default_str();
    app.add_option(
           "--namespace",
           options.network_namespace,
           "nodes of other namespaces are not seen; no effect in a private cluster"
    )
        ->capture_default_str();
    app.add_option(
        "--bootstrap-peers",
        flags.bootstrap_peers,
        "nodes to connect to besides those found: multiaddrs or host:port, separated by ','"
    );
    app.add_flag(
        "--no-discovery",
        flags.no_discovery,
        "look for no nodes on the local network, and tell it nothing of this one (mDNS, DNS-SD)"
    );
    app.add_flag("--offline", options.offline, "make no connection to a model hub");
    app.add_option(
        "--memory-limit", flags.memory_limit, "use at most SIZE for models, for example 2GiB"
    );
    app.add_option(
           "--threads", options.threads, "compute threads of a runner; 0: one a physical core"
    )
        ->check(CLI::Range(0u, runner::threads_most))
        ->capture_default_str();
    app.add_option(
           "--device",
           options.device,
           "what a runner computes with: auto (a GPU, in a build for one), cpu, or a GPU's name"
    )
        ->capture_default_str();
    app.add_option(
           "--micro-batch",
           options.micro_batch,
           "tokens that a runner computes at a time; 0: the default"
    )
        ->capture_default_str();
    app.add_option(
           "--private-links",
           options.private_networks,
           "networks without strangers, for example 10.1.2.0/24: ranks that meet there, and whose "
           "nodes both say so, need no cipher"
    )
        ->delimiter(',')
        ->check(is_network);
    runner::add_settings_flags(app, options.instance_settings);
    app.add_option(
        "--draft-model", flags.draft_model, "a small model that drafts for larger ones of its kind"
    );
    app.add_flag("-v", flags.verbosity, "more log: -v debug, -vv trace");
}

log::Level level_of(int verbosity) {
    if (verbosity >= 2) {
        return log::Level::trace;
    }
    return verbosity == 1 ? log::Level::debug : log::Level::info;
}

Result<void> apply_flags(Flags const& flags, node::NodeOptions& options) {
    options.worker = !flags.no_worker;
    options.api = !flags.no_api;
    options.discovery = !flags.no_discovery;
    options.offline = options.offline || is_true(variable("EXO_OFFLINE"));
    auto const peers =
        flags.bootstrap_peers.empty() ? variable("EXO_BOOTSTRAP_PEERS") : flags.bootstrap_peers;
    options.bootstrap_peers = without_empty(split(peers, ','));
    if (flags.no_api && flags.spawn_api) {
        return Error(Errc::invalid_argument, "--no-api and --spawn-api exclude each other");
    }
    if (!flags.memory_limit.empty()) {
        auto const limit = parse_size(flags.memory_limit);
        if (!limit) {
            return Error(Errc::invalid_argument, "--memory-limit: " + limit.error().text());
        }
        options.memory_limit_bytes = *limit;
    }
    if (!flags.draft_model.empty()) {
        options.instance_settings.draft_model = model::ModelId(flags.draft_model);
    }
    return {};
}

} // namespace

Result<std::optional<CommandLine>> parse_command_line(int argc, char** argv) {
    CommandLine line;
    Flags flags;
    CLI::App app{
        "exo: one computer for large language models, made of the machines you have.", "exo"
    };
    app.footer(environment_help);
    app.set_version_flag("--version", std::string("exo ") + version);
    if (auto const name = variable("EXO_LIBP2P_NAMESPACE"); !name.empty()) {
        line.node.network_namespace = name;
    }
    add_flags(app, flags, line.node);
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& error) {
        if (error.get_exit_code() == 0) {
            app.exit(error); // Prints help or the version.
            return std::optional<CommandLine>();
        }
        return Error(
            Errc::invalid_argument, fmt::format("{} (exo --help lists the flags)", error.what())
        );
    }
    EXO_TRY(apply_flags(flags, line.node));
    line.level = level_of(flags.verbosity);
    line.node.namespace_given =
        app.count("--namespace") > 0 || !variable("EXO_LIBP2P_NAMESPACE").empty();
    auto paths = storage::paths_of_process();
    if (!paths) {
        return paths.error();
    }
    line.node.paths = std::move(*paths);
    return std::optional<CommandLine>(std::move(line));
}

} // namespace exo::cli
