// SPDX-License-Identifier: Apache-2.0
//
// The program: `exo` runs a node; its first word may be another command (`commands`).
#include "base/log.hpp"
#include "main/cluster_command.hpp"
#include "main/doctor_command.hpp"
#include "main/options.hpp"
#include "main/version.hpp"
#include "node/node.hpp"
#include "runner/runner.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace {

namespace asio = boost::asio;
using namespace exo;

constexpr int exit_ok = 0;
constexpr int exit_failure = 1;
constexpr int exit_usage = 2;
// All must have ended by then; what has not is left to the operating system.
constexpr auto stop_limit = std::chrono::milliseconds(2800);

struct Command {
    std::string_view name;
    int (*run)(int argc, char** argv); // argv[0] is the name.
};

constexpr std::array commands{
    Command{"cluster", cli::run_cluster_command},
    Command{"doctor", cli::run_doctor_command},
    Command{"runner", runner::run}, // The child process that computes.
};

int fail(std::string const& text, int code) {
    std::fprintf(stderr, "exo: %s\n", text.c_str());
    return code;
}

std::string own_path(char const* name) {
    std::error_code error;
    auto const path = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? std::filesystem::absolute(name).string() : path.string();
}

// The first signal ends the node in good order, a second one at once.
asio::awaitable<void> stop_on_signal(node::Node& node) {
    auto const executor = co_await asio::this_coro::executor;
    asio::signal_set signals(executor, SIGINT, SIGTERM);
    co_await signals.async_wait(asio::use_awaitable);
    log::info("exo", "stopping");
    asio::steady_timer overdue(executor, stop_limit);
    overdue.async_wait([](auto error) {
        if (!error) {
            log::warning("exo", "something did not end in time; leaving it");
            std::_Exit(exit_ok);
        }
    });
    signals.async_wait([](auto error, int) {
        if (!error) {
            std::_Exit(exit_failure);
        }
    });
    co_await node.stop();
    overdue.cancel();
    signals.cancel();
}

int run_node(cli::CommandLine line) {
    auto const log_file = line.node.paths.log_file();
    std::error_code ignored; // The log says what is wrong when it cannot write there.
    std::filesystem::create_directories(log_file.parent_path(), ignored);
    log::start(line.level, log_file.string());
    asio::io_context context(1);
    auto node = node::Node::create(context.get_executor(), std::move(line.node), cli::version);
    if (!node) {
        return fail(node.error().text(), exit_failure);
    }
    if (auto const started = (*node)->start(); !started) {
        return fail(started.error().text(), exit_failure);
    }
    std::printf("exo %s is running\n", cli::version);
    std::printf("node id  %s\n", (*node)->id().value().c_str());
    if (auto const url = (*node)->api_url(); !url.empty()) {
        std::printf("API      %s\n", url.c_str());
    }
    std::fflush(stdout);
    std::exception_ptr failure;
    asio::co_spawn(context, stop_on_signal(**node), [&failure](std::exception_ptr thrown) {
        failure = thrown;
    });
    context.run();
    if (failure) {
        std::rethrow_exception(failure);
    }
    return exit_ok;
}

} // namespace

int main(int argc, char** argv) {
    // A peer that closes its socket must not end the process.
    std::signal(SIGPIPE, SIG_IGN);
    for (auto const& command : commands) {
        if (argc > 1 && argv[1] == command.name) {
            return command.run(argc - 1, argv + 1);
        }
    }
    auto line = cli::parse_command_line(argc, argv);
    if (!line) {
        return fail(line.error().text(), exit_usage);
    }
    if (!*line) {
        return exit_ok;
    }
    (*line)->node.executable = own_path(argv[0]);
    try {
        return run_node(std::move(**line));
    } catch (std::exception const& error) {
        return fail(error.what(), exit_failure);
    }
}
