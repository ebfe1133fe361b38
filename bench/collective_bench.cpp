// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a group cost each other over loopback, beside a bare TCP socket that moves the
// same bytes: a table by size. Two ranks are threads of this process, one core each, so that a
// machine with two free cores shows what it will do for one rank a machine, but for the wire.
//
//     collective_bench [--sleep] [--megabytes-max N]
//
// Both sides spin while they wait, as ranks with a core of their own do; with --sleep neither does.
// Numbers of a busy machine say nothing.
#include "base/log.hpp"
#include "collective/tcp/tcp_group.hpp"
#include "collective/wire/wire_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace exo;
using namespace exo::collective;

// Long enough for the middle of some batches to be steady, and short enough for a whole table.
constexpr Duration time_per_cell = 60ms;
constexpr std::size_t batches_min = 5;
constexpr Duration time_per_batch = 2ms;

Duration spin = 1ms;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

// The middle of several batches, for one run of `action`, in microseconds.
double measure(std::function<void()> const& action) {
    action(); // Buffers grow, plans are made.
    action();
    std::vector<double> batches;
    for (TimePoint const start = now();
         batches.size() < batches_min || now() < start + time_per_cell;) {
        TimePoint const begin = now();
        int count = 0;
        do {
            action();
            ++count;
        } while (now() < begin + time_per_batch);
        Duration const took = now() - begin;
        batches.push_back(static_cast<double>(took.count()) / 1e3 / count);
    }
    std::ranges::nth_element(batches, batches.begin() + std::ssize(batches) / 2);
    return batches[batches.size() / 2];
}

// ---- a bare socket: what there is to reach

class BareSocket {
public:
    explicit BareSocket(int descriptor)
        : descriptor_(descriptor) {
        int const on = 1;
        (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }

    ~BareSocket() { close(descriptor_); }

    BareSocket(BareSocket const&) = delete;
    BareSocket& operator=(BareSocket const&) = delete;

    void end() { shutdown(descriptor_, SHUT_RDWR); }

    // Both directions at once; false when the other side has ended.
    bool exchange(Bytes const& out, Bytes& in) {
        std::size_t sent = 0;
        std::size_t received = 0;
        while (sent < out.size() || received < in.size()) {
            auto const more_sent = move(sent < out.size(), [&] {
                auto const rest = out.size() - sent;
                return send(descriptor_, out.data() + sent, rest, MSG_NOSIGNAL | MSG_DONTWAIT);
            });
            auto const more_received = move(received < in.size(), [&] {
                return recv(descriptor_, in.data() + received, in.size() - received, MSG_DONTWAIT);
            });
            if (more_sent < 0 || more_received < 0) {
                return false;
            }
            sent += static_cast<std::size_t>(more_sent);
            received += static_cast<std::size_t>(more_received);
            if (more_sent == 0 && more_received == 0) {
                wait(sent < out.size(), received < in.size());
            }
        }
        return true;
    }

private:
    // -1 at the end, 0 when nothing moved.
    template <class Call>
    static ssize_t move(bool wanted, Call const& call) {
        if (!wanted) {
            return 0;
        }
        auto const count = call();
        if (count > 0) {
            return count;
        }
        return count < 0 && errno == EAGAIN ? 0 : -1;
    }

    void wait(bool write, bool read) const {
        if (spin > Duration(0)) {
            (void)sched_yield();
            return;
        }
        int const bits = (write ? POLLOUT : 0) | (read ? POLLIN : 0);
        pollfd polled{.fd = descriptor_, .events = static_cast<short>(bits), .revents = 0};
        (void)poll(&polled, 1, -1);
    }

    int descriptor_;
};

struct BarePair {
    std::unique_ptr<BareSocket> ours;
    std::unique_ptr<BareSocket> theirs;

    BarePair() {
        int const listener = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* const name = reinterpret_cast<sockaddr*>(&address);
        (void)bind(listener, name, size);
        (void)listen(listener, 1);
        (void)getsockname(listener, name, &size);
        int const one = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(one, name, size) != 0) {
            std::perror("connect");
            std::exit(1);
        }
        ours = std::make_unique<BareSocket>(one);
        theirs = std::make_unique<BareSocket>(accept(listener, nullptr, nullptr));
        close(listener);
    }
};

// Microseconds for one message: half a round trip.
double bare_send(std::size_t size) {
    BarePair pair;
    Bytes bytes(size);
    std::thread other([&pair, copy = bytes]() mutable {
        Bytes nothing;
        while (pair.theirs->exchange(nothing, copy) && pair.theirs->exchange(copy, nothing)) {
        }
    });
    Bytes nothing;
    double const time = measure([&] {
        (void)pair.ours->exchange(bytes, nothing);
        (void)pair.ours->exchange(nothing, bytes);
    });
    pair.ours->end();
    other.join();
    return time / 2;
}

double bare_exchange(std::size_t size) {
    BarePair pair;
    Bytes const out(size);
    Bytes in(size);
    std::thread other([&pair, out, copy = in]() mutable {
        while (pair.theirs->exchange(out, copy)) {
        }
    });
    double const time = measure([&] { (void)pair.ours->exchange(out, in); });
    pair.ours->end();
    other.join();
    return time;
}

// ---- groups

std::unique_ptr<TcpGroup> join_group(
    Listener listener,
    std::uint32_t rank,
    std::vector<Endpoint> const& endpoints,
    TcpOptions const& options
) {
    auto group = TcpGroup::connect(
        std::move(listener), Key{1}, Membership{.rank = rank}, endpoints, options
    );
    if (!group) {
        fmt::print(stderr, "rank {}: {}\n", rank, group.error().text());
        std::exit(1);
    }
    return std::move(*group);
}

// Runs `action` as rank 0 of 2, timed, and `other` as rank 1 until the group ends.
double measure_group(
    TcpOptions options,
    std::function<void(Group&)> const& action,
    std::function<bool(Group&)> const& other
) {
    options.spin = spin;
    std::vector<Listener> listeners;
    std::vector<Endpoint> endpoints;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        auto listener = Listener::open();
        endpoints.push_back({.addresses = {"127.0.0.1"}, .port = listener->port()});
        listeners.push_back(std::move(*listener));
    }
    std::thread second([&] {
        auto const group = join_group(std::move(listeners[1]), 1, endpoints, options);
        while (other(*group)) {
        }
    });
    auto group = join_group(std::move(listeners[0]), 0, endpoints, options);
    double const time = measure([&] { action(*group); });
    group.reset();
    second.join();
    return time;
}

double group_send(std::size_t size, bool plain) {
    Bytes bytes(size);
    Bytes copy(size);
    double const time = measure_group(
        {.plain_on_one_machine = plain},
        [&](Group& group) {
            (void)group.send(1, bytes);
            (void)group.receive(1, bytes);
        },
        [&](Group& group) { return group.receive(0, copy) && group.send(0, copy); }
    );
    return time / 2;
}

double group_all_reduce(std::size_t size, bool plain, WireFormat format) {
    std::vector<float> values(std::max<std::size_t>(size / sizeof(float), 1));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = 1e-3f * static_cast<float>(i % 997); // Summed again and again, yet finite.
    }
    auto const start = values;
    auto copy = values;
    TcpOptions options;
    options.plain_on_one_machine = plain;
    options.wish = {.algorithm = Algorithm::direct, .format = format};
    auto const run = [&](Group& group, std::vector<float>& own) {
        // Doubled sums would reach infinity soon.
        std::memcpy(own.data(), start.data(), std::min<std::size_t>(own.size(), 16) * 4);
        return bool(group.all_reduce(own));
    };
    return measure_group(
        options,
        [&](Group& group) { (void)run(group, values); },
        [&](Group& group) { return run(group, copy); }
    );
}

// ---- tables

constexpr std::size_t sizes[] = {
    1, 64, 1024, 2304, 8 << 10, 32 << 10, 128 << 10, 1 << 20, 4 << 20, 16 << 20
};

double megabytes_per_second(std::size_t size, double us) {
    return static_cast<double>(size) / us;
}

void print_sends(std::size_t size_max) {
    fmt::print("One message between two ranks (half a round trip)\n\n");
    fmt::print(
        "{:>10} {:>11} {:>11} {:>6} {:>11} {:>10} {:>10} {:>10}\n",
        "bytes",
        "bare us",
        "plain us",
        "x bare",
        "cipher us",
        "bare MB/s",
        "plain MB/s",
        "ciph. MB/s"
    );
    for (auto const size : sizes) {
        if (size > size_max) {
            continue;
        }
        double const bare = bare_send(size);
        double const plain = group_send(size, true);
        double const cipher = group_send(size, false);
        fmt::print(
            "{:>10} {:>11.1f} {:>11.1f} {:>6.2f} {:>11.1f} {:>10.0f} {:>10.0f} {:>10.0f}\n",
            size,
            bare,
            plain,
            plain / bare,
            cipher,
            megabytes_per_second(size, bare),
            megabytes_per_second(size, plain),
            megabytes_per_second(size, cipher)
        );
        std::fflush(stdout);
    }
}

void print_sums(std::size_t size_max) {
    fmt::print("\nThe sum over two ranks; bare: the same bytes both ways, nothing added\n\n");
    fmt::print(
        "{:>10} {:>11} {:>11} {:>6} {:>11} {:>11} {:>11} {:>11}\n",
        "bytes",
        "bare us",
        "f32 us",
        "x bare",
        "cipher us",
        "f16 us",
        "q8 us",
        "q8 cipher"
    );
    for (auto const size : sizes) {
        if (size > size_max || size < sizeof(float)) {
            continue;
        }
        double const bare = bare_exchange(size);
        double const f32 = group_all_reduce(size, true, WireFormat::f32);
        fmt::print(
            "{:>10} {:>11.1f} {:>11.1f} {:>6.2f} {:>11.1f} {:>11.1f} {:>11.1f} {:>11.1f}\n",
            size,
            bare,
            f32,
            f32 / bare,
            group_all_reduce(size, false, WireFormat::f32),
            group_all_reduce(size, true, WireFormat::f16),
            group_all_reduce(size, true, WireFormat::q8),
            group_all_reduce(size, false, WireFormat::q8)
        );
        std::fflush(stdout);
    }
}

// What a format costs a core, apart from any wire.
void print_conversions() {
    constexpr std::size_t count = 1 << 16;
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(i % 1009) - 500.0f;
    }
    fmt::print("\nConversion on one core, ns for a thousand values\n\n");
    fmt::print("{:>10} {:>11} {:>11}\n", "format", "pack", "unpack");
    for (auto const format : {WireFormat::f16, WireFormat::q8}) {
        Bytes wire(wire_bytes(format, count));
        double const pack = measure([&] { to_wire(format, values, wire); });
        double const unpack = measure([&] { from_wire(format, wire, values); });
        double const per_thousand = 1e6 / count;
        fmt::print(
            "{:>10} {:>11.0f} {:>11.0f}\n",
            to_string(format),
            pack * per_thousand,
            unpack * per_thousand
        );
    }
}

} // namespace

int main(int argc, char** argv) {
    std::size_t size_max = 16u << 20;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--sleep") == 0) {
            spin = Duration(0);
        } else if (std::strcmp(argv[i], "--megabytes-max") == 0 && i + 1 < argc) {
            size_max = std::strtoull(argv[++i], nullptr, 10) << 20;
        } else {
            fmt::print(stderr, "usage: {} [--sleep] [--megabytes-max N]\n", argv[0]);
            return 2;
        }
    }
    log::start(log::Level::error, "");
    print_sends(size_max);
    print_sums(size_max);
    print_conversions();
    return 0;
}
