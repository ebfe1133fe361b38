// SPDX-License-Identifier: Apache-2.0
//
// What a collective costs over loopback, beside a bare socket that does the same. Ranks are threads
// of this process, one compute thread each, so that a machine with as many cores as ranks shows
// what it will do for one rank a machine, but for the wire.
//
//     collective_bench --benchmark_filter=all_reduce
#include "collective/tcp/tcp_group.hpp"

#include <benchmark/benchmark.h>
#include <cstdlib>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace exo;
using namespace exo::collective;

// Ranks 1.. run `other` until it fails, which is when rank 0 ends the group.
class Ranks {
public:
    Ranks(std::uint32_t size, TcpOptions const& options, std::function<bool(Group&)> const& other) {
        std::vector<Listener> listeners;
        std::vector<Endpoint> endpoints;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            auto listener = Listener::open();
            listeners.push_back(std::move(*listener));
            endpoints.push_back({.addresses = {"127.0.0.1"}, .port = listeners.back().port()});
        }
        auto const connect = [endpoints, options](Listener listener, std::uint32_t rank) {
            auto group = TcpGroup::connect(
                std::move(listener), Key{1}, Membership{.rank = rank}, endpoints, options
            );
            if (!group) {
                std::abort();
            }
            return std::move(*group);
        };
        for (std::uint32_t rank = 1; rank < size; ++rank) {
            threads_.emplace_back([connect, rank, other, listener = std::move(listeners[rank])](
                                  ) mutable {
                auto const group = connect(std::move(listener), rank);
                while (other(*group)) {
                }
            });
        }
        first_ = connect(std::move(listeners[0]), 0);
    }

    ~Ranks() {
        first_.reset();
        for (auto& thread : threads_) {
            thread.join();
        }
    }

    Group& first() { return *first_; }

private:
    std::unique_ptr<Group> first_;
    std::vector<std::thread> threads_;
};

TcpOptions options_of(benchmark::State const& state) {
    TcpOptions options;
    options.plain_on_one_machine = state.range(1) != 0;
    options.spin = std::chrono::microseconds(state.range(2));
    return options;
}

// ---- a bare socket: what there is to reach

int connected_pair(int& other) {
    int const listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    (void)bind(listener, name, size);
    (void)listen(listener, 1);
    (void)getsockname(listener, name, &size);
    int const ours = socket(AF_INET, SOCK_STREAM, 0);
    (void)connect(ours, name, size);
    other = accept(listener, nullptr, nullptr);
    close(listener);
    int const on = 1;
    (void)setsockopt(ours, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return ours;
}

bool move_all(int descriptor, Bytes& bytes, bool out) {
    for (std::size_t done = 0; done < bytes.size();) {
        auto const count =
            out ? send(descriptor, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL)
                : recv(descriptor, bytes.data() + done, bytes.size() - done, 0);
        if (count <= 0) {
            return false;
        }
        done += static_cast<std::size_t>(count);
    }
    return true;
}

void bare_round_trip(benchmark::State& state) {
    int theirs = -1;
    int const ours = connected_pair(theirs);
    Bytes bytes(static_cast<std::size_t>(state.range(0)));
    std::thread echo([theirs, size = bytes.size()] {
        Bytes copy(size);
        while (move_all(theirs, copy, false) && move_all(theirs, copy, true)) {
        }
        close(theirs);
    });
    for (auto _ : state) {
        (void)move_all(ours, bytes, true);
        (void)move_all(ours, bytes, false);
    }
    shutdown(ours, SHUT_RDWR);
    echo.join();
    close(ours);
}

// ---- groups

void round_trip(benchmark::State& state) {
    Bytes bytes(static_cast<std::size_t>(state.range(0)));
    Ranks ranks(2, options_of(state), [copy = bytes](Group& group) mutable {
        return group.receive(0, copy) && group.send(0, copy);
    });
    for (auto _ : state) {
        (void)ranks.first().send(1, bytes);
        (void)ranks.first().receive(1, bytes);
    }
}

void all_reduce(benchmark::State& state) {
    std::vector<float> values(static_cast<std::size_t>(state.range(0)) / sizeof(float));
    auto const size = static_cast<std::uint32_t>(state.range(3));
    auto options = options_of(state);
    options.algorithm = static_cast<Algorithm>(state.range(4));
    Ranks ranks(size, options, [copy = values](Group& group) mutable {
        return bool(group.all_reduce(copy));
    });
    for (auto _ : state) {
        (void)ranks.first().all_reduce(values);
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

// A stream of micro-batches from one pipeline stage to the next.
void one_way(benchmark::State& state) {
    Bytes bytes(static_cast<std::size_t>(state.range(0)));
    Ranks ranks(2, options_of(state), [copy = bytes](Group& group) mutable {
        return bool(group.receive(0, copy));
    });
    for (auto _ : state) {
        (void)ranks.first().send(1, bytes);
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;

BENCHMARK(bare_round_trip)
    ->ArgName("bytes")
    ->Arg(1)
    ->Arg(8 * kib)
    ->Arg(32 * kib)
    ->Arg(4 * mib)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(round_trip)
    ->ArgNames({"bytes", "plain", "spin_us"})
    ->ArgsProduct({{1, 8 * kib, 32 * kib}, {0, 1}, {0, 50}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(one_way)
    ->ArgNames({"bytes", "plain", "spin_us"})
    ->ArgsProduct({{mib}, {0, 1}, {0}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

BENCHMARK(all_reduce)
    ->ArgNames({"bytes", "plain", "spin_us", "ranks", "algorithm"})
    ->ArgsProduct({{8 * kib, 32 * kib}, {0, 1}, {0, 50}, {2}, {0}})
    ->ArgsProduct({{8 * kib, 32 * kib}, {0}, {0}, {4}, {1, 2, 3}})
    ->ArgsProduct({{4 * mib}, {0, 1}, {0}, {2}, {0}})
    ->ArgsProduct({{4 * mib}, {0}, {0}, {4}, {1, 2, 3}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

} // namespace
