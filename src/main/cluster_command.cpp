// SPDX-License-Identifier: Apache-2.0
#include "main/cluster_command.hpp"

#include "net/crypto/psk.hpp"
#include "node/network/membership.hpp"
#include "node/network/own_port.hpp"
#include "storage/files/paths.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <unistd.h>

namespace exo::cli {
namespace {

constexpr int exit_ok = 0;
constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

constexpr char const* help_footer = R"(
On one machine:            exo cluster create
On each of the others:     exo cluster join TOKEN

A node that runs follows within seconds; one that does not will when it starts.
Who has the token can join: pass it on as you would a password. 'exo cluster join'
without a token reads it from standard input, so that it stays out of the shell's history.)";

struct Context {
    storage::Paths paths;
    node::MembershipFile file;
    std::string token; // Of the command line.
};

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
    fmt::print(stderr, format, std::forward<Args>(args)...);
    std::fputc('\n', stderr);
}

int fail(Error const& error) {
    say("exo cluster: {}", error.text());
    return error.code() == Errc::invalid_argument ? exit_usage : exit_failure;
}

// With the addresses that this machine has now.
int print_token(Context const& context, net::ClusterToken const& membership) {
    auto const port = node::reserve_port(context.paths.libp2p_port());
    if (!port) {
        return fail(port.error());
    }
    auto const token = node::invitation(membership, node::own_addresses(*port));
    fmt::print("{}\n", net::to_text(token));
    return exit_ok;
}

std::string name_of(net::ClusterToken const& membership) {
    return net::fingerprint(membership.secret);
}

int create(Context const& context) {
    auto const created = node::create_cluster(context.file);
    if (!created) {
        return fail(created.error());
    }
    say("This node is in the private cluster {} now, and nobody else yet. On each machine that is "
        "to be in it:\n\n    exo cluster join TOKEN\n\nwith this token. It holds the secret: "
        "who has it can join.\n",
        name_of(*created));
    return print_token(context, *created);
}

// A line of standard input; a longer one than any token is cut, and refused as one.
std::string read_token() {
    if (::isatty(STDIN_FILENO) != 0) {
        say("Paste the token of 'exo cluster token', then press Enter:");
    }
    std::array<char, net::token_text_max + 2> line{};
    return std::fgets(line.data(), static_cast<int>(line.size()), stdin) == nullptr ? ""
                                                                                    : line.data();
}

int join(Context const& context) {
    bool const is_given = !context.token.empty() && context.token != "-";
    auto const joined = node::join_cluster(context.file, is_given ? context.token : read_token());
    if (!joined) {
        return fail(joined.error());
    }
    auto const& [now, before] = *joined;
    if (before && before->secret == now.secret) {
        say("This node was in the private cluster {} already; it knows the token's addresses now.",
            name_of(now));
        return exit_ok;
    }
    if (before) {
        say("This node has left the private cluster {}.", name_of(*before));
    }
    say("This node is in the private cluster {} now.", name_of(now));
    return exit_ok;
}

int leave(Context const& context) {
    auto const look = context.file.load();
    auto const removed = context.file.remove();
    if (!removed) {
        return fail(removed.error());
    }
    if (!*removed) {
        say("This node is in no private cluster.");
        return exit_ok;
    }
    say("This node has left the private cluster{}{}. It is in the public network again: every exo "
        "of its namespace that can reach it may join it.",
        look && look->membership ? " " : "",
        look && look->membership ? name_of(*look->membership) : "");
    return exit_ok;
}

void warn_if_open(Context const& context, node::MembershipFile::Look const& look) {
    if (look.was_open) {
        say("exo cluster: {}.", context.file.was_open_text());
    }
}

int token(Context const& context) {
    auto const look = context.file.load();
    if (!look) {
        return fail(look.error());
    }
    warn_if_open(context, *look);
    if (!look->membership) {
        return fail(Error(
            Errc::not_found,
            "this node is in no private cluster, so there is no token: 'exo cluster create' makes "
            "one"
        ));
    }
    return print_token(context, *look->membership);
}

int status(Context const& context) {
    auto const look = context.file.load();
    if (!look) {
        return fail(look.error());
    }
    warn_if_open(context, *look);
    if (auto const port = node::kept_port(context.paths.libp2p_port())) {
        fmt::print("port             {}\n", *port);
    }
    if (!look->membership) {
        fmt::print("private cluster  none: in the public network of the namespace\n");
        return exit_ok;
    }
    fmt::print("private cluster  {}\n", name_of(*look->membership));
    fmt::print("secret in        {}\n", context.file.path().string());
    for (auto const& address : look->membership->addresses) {
        fmt::print("joined by way of {}\n", address.text());
    }
    return exit_ok;
}

int rotate(Context const& context) {
    auto const rotated = node::rotate_secret(context.file);
    if (!rotated) {
        return fail(rotated.error());
    }
    say("The cluster of this node has a new secret and is the private cluster {} now. The other "
        "members are not in it until each of them has joined with this token; one that has not is "
        "refused.\n",
        name_of(*rotated));
    return print_token(context, *rotated);
}

struct Command {
    char const* name;
    char const* help;
    int (*run)(Context const&);
};

constexpr std::array commands{
    Command{"create", "make a private cluster of this node and print its token", create},
    Command{"join", "bring this node into the private cluster of a token", join},
    Command{"leave", "back into the public network", leave},
    Command{"token", "print the token, with the addresses of this machine", token},
    Command{"status", "which private cluster this node is in", status},
    Command{"rotate", "give the cluster a new secret and print the token", rotate},
};

} // namespace

int run_cluster_command(int argc, char** argv) {
    CLI::App app{
        "Private clusters: only machines that have the secret can take part.", "exo cluster"
    };
    app.footer(help_footer);
    app.require_subcommand(1);
    std::vector<std::string> words;
    for (auto const& command : commands) {
        auto* const added = app.add_subcommand(command.name, command.help);
        if (command.run == join) {
            // In pieces: a line that a terminal has broken is often pasted with blanks.
            added->add_option(
                "TOKEN",
                words,
                "of 'exo cluster token' on a member; none or '-': "
                "read from standard input"
            );
        }
    }
    try {
        app.parse(argc, argv);
    } catch (CLI::ParseError const& error) {
        if (error.get_exit_code() == 0) {
            return app.exit(error); // Prints help.
        }
        say("exo cluster: {} (exo cluster --help lists the commands)", error.what());
        return exit_usage;
    }
    auto paths = storage::paths_of_process();
    if (!paths) {
        return fail(paths.error());
    }
    node::MembershipFile file(paths->cluster_token());
    Context const context{std::move(*paths), std::move(file), CLI::detail::join(words, "")};
    auto const* const chosen = app.get_subcommands().front();
    auto const command = std::ranges::find(commands, chosen->get_name(), &Command::name);
    return command->run(context);
}

} // namespace exo::cli
