// SPDX-License-Identifier: Apache-2.0
//
// A child for the supervisor's tests. It speaks the real ipc and behaves as the first model path of
// its Start says: well, or in each of the ways in which a runner can go wrong.
#include "base/bytes.hpp"
#include "ipc/channel.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <unistd.h>

extern char** environ;

namespace {

using namespace exo;

void sleep_forever() {
    while (true) {
        pause();
    }
}

void print_lines() {
    for (int i = 1; i <= 30; ++i) {
        std::fprintf(stderr, "line %d\n", i);
    }
}

// What the child finds: its environment, its descriptors, its group.
std::vector<std::string> surroundings() {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        result.emplace_back(*entry);
    }
    for (int descriptor = 0; descriptor < 256; ++descriptor) {
        if (fcntl(descriptor, F_GETFD) >= 0) {
            result.push_back("descriptor " + std::to_string(descriptor));
        }
    }
    result.push_back(getpgrp() == getpid() ? "own group" : "foreign group");
    struct sigaction action{};
    (void)sigaction(SIGPIPE, nullptr, &action);
    result.push_back(action.sa_handler == SIG_DFL ? "default signals" : "changed signals");
    return result;
}

void answer(ipc::Channel& channel, ipc::Generate const& generate) {
    auto const& task = generate.request.task_id;
    auto const tell = [&](model::GenerationEvent event) {
        (void)channel.write_message(ipc::Generated{.task_id = task, .event = std::move(event)});
    };
    tell(model::TokenDelta{.number = 0, .text = generate.request.model.value(), .token_count = 1});
    tell(model::GenerationFinished{});
}

void serve(ipc::Channel& channel, ipc::Start const& start) {
    if (start.world_size > 1) {
        (void)channel.write_message(ipc::Listening{.port = 4242});
    }
    (void)channel.write_message(ipc::StatusChanged{.status = model::RunnerIdle{}});
    while (auto const message = channel.read_message()) {
        if (std::holds_alternative<ipc::Connect>(*message)) {
            (void)channel.write_message(ipc::StatusChanged{.status = model::RunnerReady{}});
        } else if (auto const* generate = std::get_if<ipc::Generate>(&*message)) {
            answer(channel, *generate);
        } else if (auto const* cancel = std::get_if<ipc::Cancel>(&*message)) {
            (void)channel.write_message(ipc::Generated{
                .task_id = cancel->task_id,
                .event = model::GenerationFailed{.code = "cancelled", .message = "as asked"},
            });
        } else if (std::holds_alternative<ipc::Shutdown>(*message)) {
            std::exit(0);
        }
    }
    std::exit(7); // The node is gone.
}

void misbehave(ipc::Channel& channel, int descriptor, std::string const& how) {
    auto const is_idle = ipc::StatusChanged{.status = model::RunnerIdle{}};
    if (how == "crash") {
        print_lines();
        (void)std::signal(SIGSEGV, SIG_DFL); // A sanitizer would make an exit of it.
        (void)std::raise(SIGSEGV);
    } else if (how == "exit") {
        std::printf("before the end");
        std::fflush(stdout);
        std::exit(3);
    } else if (how == "fault") {
        (void)channel.write_message(ipc::Fault{.message = "out of memory on rank 0"});
        std::exit(1);
    } else if (how == "garbage") {
        (void)!write(descriptor, "\x00\x00\x00\x01\xc1", 5);
        sleep_forever();
    } else if (how == "endless") {
        (void)!write(descriptor, "\xff\xff\xff\xff", 4);
        sleep_forever();
    } else if (how == "stubborn" || how == "deaf") {
        (void)std::signal(SIGTERM, how == "stubborn" ? SIG_IGN : SIG_DFL);
        (void)channel.write_message(is_idle);
        sleep_forever();
    } else if (how == "surroundings") {
        (void)channel.write_message(ipc::StatusChanged{
            .status = model::RunnerFailed{.error_message = "", .diagnostics = surroundings()},
        });
        sleep_forever();
    } else if (how == "close") {
        close(descriptor);
        sleep_forever();
    } else if (how == "grandchild") {
        if (fork() == 0) {
            sleep_forever(); // Keeps stdout and the line open.
        }
        std::exit(4);
    }
    sleep_forever(); // "silent"
}

} // namespace

int main(int count, char** arguments) {
    int const descriptor = count > 1 ? std::atoi(arguments[count - 1]) : 0;
    exo::ipc::Channel channel(descriptor);
    auto const first = channel.read_message();
    if (!first || !std::holds_alternative<exo::ipc::Start>(*first)) {
        return 8;
    }
    auto const& start = std::get<exo::ipc::Start>(*first);
    std::string const how = start.model_paths.empty() ? "serve" : start.model_paths[0];
    if (how == "serve") {
        serve(channel, start);
    }
    misbehave(channel, descriptor, how);
}
