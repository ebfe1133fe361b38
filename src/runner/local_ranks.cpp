// SPDX-License-Identifier: Apache-2.0
#include "runner/local_ranks.hpp"

#include "base/entropy.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace exo::runner {
namespace {

TimePoint now() {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

int milliseconds_until(TimePoint deadline) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now());
    return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

// Open until the child has entered it; -1 without a place.
Result<int> open_namespace(Place const* place) {
    if (place == nullptr) {
        return -1;
    }
    auto const path = "/run/netns/" + place->network_namespace;
    int const descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return errno_error("cannot open network namespace " + path);
    }
    return descriptor;
}

// In the child: what may be called between fork and exec.
bool enter_namespace([[maybe_unused]] int descriptor) {
#ifdef __linux__
    return descriptor < 0 || setns(descriptor, CLONE_NEWNET) == 0;
#else
    return descriptor < 0;
#endif
}

} // namespace

Result<Place> Place::parse(std::string const& text) {
    auto const middle = text.find('=');
    if (middle == std::string::npos || middle == 0 || middle + 1 == text.size()) {
        return Error(
            Errc::invalid_argument, "'" + text + "' is not NAMESPACE=ADDRESS (ip netns list)"
        );
    }
    return Place{.network_namespace = text.substr(0, middle), .address = text.substr(middle + 1)};
}

Result<std::unique_ptr<LocalRanks>> LocalRanks::spawn(
    std::vector<std::string> const& command,
    ipc::Start const& start,
    std::vector<Place> const& places
) {
    if (!places.empty() && places.size() != start.world_size) {
        return Error(
            Errc::invalid_argument,
            fmt::format("{} places for {} ranks", places.size(), start.world_size)
        );
    }
    std::unique_ptr<LocalRanks> made(new LocalRanks);
    for (std::uint32_t rank = 0; rank < start.world_size; ++rank) {
        EXO_TRY(made->start_one(command, places.empty() ? nullptr : &places[rank]));
        auto own = start;
        own.device_rank = rank;
        EXO_TRY(made->send(rank, own));
    }
    return made;
}

LocalRanks::~LocalRanks() {
    for (auto& rank : ranks_) {
        if (rank.descriptor >= 0) {
            close(rank.descriptor);
        }
        if (rank.process > 0) {
            ::kill(rank.process, SIGKILL);
            waitpid(rank.process, nullptr, 0);
        }
    }
}

Result<void> LocalRanks::start_one(std::vector<std::string> const& command, Place const* place) {
    auto const network = open_namespace(place);
    if (!network) {
        return network.error();
    }
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return errno_error("cannot make a socket pair");
    }
    auto arguments = command;
    arguments.insert(arguments.end(), {"--ipc-fd", std::to_string(ends[1])});
    std::vector<char*> pointers;
    for (auto& argument : arguments) {
        pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    auto const process = fork();
    if (process < 0) {
        return errno_error("cannot fork");
    }
    if (process == 0) {
        fcntl(ends[1], F_SETFD, 0); // The one descriptor that the child inherits.
        if (!enter_namespace(*network)) {
            _exit(126);
        }
        execv(pointers.front(), pointers.data());
        _exit(127);
    }
    close(ends[1]);
    if (*network >= 0) {
        close(*network);
    }
    ranks_.push_back({.process = process, .descriptor = ends[0]});
    if (place != nullptr) {
        ranks_.back().address = place->address;
    }
    return {};
}

Result<void> LocalRanks::send(std::uint32_t rank, ipc::ToRunner const& message) {
    auto const bytes = ipc::encode(message);
    if (!bytes) {
        return bytes.error();
    }
    BytesView rest(*bytes);
    while (!rest.empty()) {
        auto const sent = ::send(ranks_[rank].descriptor, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            return errno_error(fmt::format("cannot write to rank {}", rank));
        }
        rest = rest.subspan(static_cast<std::size_t>(sent));
    }
    return {};
}

Result<std::optional<ipc::FromRunner>> LocalRanks::receive(std::uint32_t rank, Duration limit) {
    auto& own = ranks_[rank];
    auto const deadline = now() + limit;
    for (;;) {
        auto document = own.reader.next();
        if (!document) {
            return document.error();
        }
        if (*document) {
            auto message = ipc::decode_from_runner(**document);
            if (!message) {
                return message.error();
            }
            return std::optional(std::move(*message));
        }
        pollfd entry{.fd = own.descriptor, .events = POLLIN, .revents = 0};
        int const ready = poll(&entry, 1, milliseconds_until(deadline));
        if (ready == 0) {
            return std::optional<ipc::FromRunner>();
        }
        std::array<std::uint8_t, 65536> bytes{};
        auto const got = ready < 0 ? -1 : read(own.descriptor, bytes.data(), bytes.size());
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return Error(Errc::io, fmt::format("rank {} has ended", rank));
        }
        own.reader.feed(BytesView(bytes).first(static_cast<std::size_t>(got)));
    }
}

Result<std::uint16_t> LocalRanks::await_port(std::uint32_t rank, TimePoint deadline) {
    for (;;) {
        auto const message = receive(rank, deadline - now());
        if (!message) {
            return message.error();
        }
        if (!*message) {
            return Error(Errc::timed_out, fmt::format("rank {} does not listen", rank));
        }
        if (auto const* listening = std::get_if<ipc::Listening>(&**message)) {
            return listening->port;
        }
        if (auto const* fault = std::get_if<ipc::Fault>(&**message)) {
            return Error(Errc::unavailable, fmt::format("rank {}: {}", rank, fault->message));
        }
    }
}

Result<void> LocalRanks::await_ready(std::uint32_t rank, TimePoint deadline) {
    for (;;) {
        auto const message = receive(rank, deadline - now());
        if (!message) {
            return message.error();
        }
        if (!*message) {
            return Error(Errc::timed_out, fmt::format("rank {} is not ready in time", rank));
        }
        if (auto const* fault = std::get_if<ipc::Fault>(&**message)) {
            return Error(Errc::unavailable, fmt::format("rank {}: {}", rank, fault->message));
        }
        auto const* status = std::get_if<ipc::StatusChanged>(&**message);
        if (status != nullptr && std::holds_alternative<model::RunnerReady>(status->status)) {
            return {};
        }
    }
}

Result<void> LocalRanks::connect(Duration limit) {
    auto const deadline = now() + limit;
    EXO_TRY(introduce(limit));
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
        EXO_TRY(await_ready(rank, deadline));
    }
    return {};
}

Result<void> LocalRanks::introduce(Duration limit) {
    auto endpoints = await_endpoints(limit);
    if (!endpoints) {
        return endpoints.error();
    }
    return introduce(std::move(*endpoints));
}

Result<std::vector<ipc::RankEndpoint>> LocalRanks::await_endpoints(Duration limit) {
    auto const deadline = now() + limit;
    std::vector<ipc::RankEndpoint> endpoints;
    for (std::uint32_t rank = 0; rank < size() && size() > 1; ++rank) {
        auto const port = await_port(rank, deadline);
        if (!port) {
            return port.error();
        }
        endpoints.push_back({.addresses = {ranks_[rank].address}, .port = *port});
    }
    return endpoints;
}

Result<void> LocalRanks::introduce(std::vector<ipc::RankEndpoint> endpoints) {
    std::array<std::uint8_t, 32> key{};
    fill_random(key);
    ipc::Connect const connect{.key_hex = to_hex(key), .endpoints = std::move(endpoints)};
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
        EXO_TRY(send(rank, connect));
    }
    return {};
}

int LocalRanks::wait(std::uint32_t rank) {
    int status = 0;
    waitpid(ranks_[rank].process, &status, 0);
    ranks_[rank].process = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void LocalRanks::kill(std::uint32_t rank) {
    ::kill(ranks_[rank].process, SIGKILL);
}

void LocalRanks::suspend(std::uint32_t rank) {
    ::kill(ranks_[rank].process, SIGSTOP);
}

void LocalRanks::resume(std::uint32_t rank) {
    ::kill(ranks_[rank].process, SIGCONT);
}

void LocalRanks::hang_up(std::uint32_t rank) {
    close(ranks_[rank].descriptor);
    ranks_[rank].descriptor = -1;
}

} // namespace exo::runner
