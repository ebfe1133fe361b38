// SPDX-License-Identifier: Apache-2.0
//
// What one libp2p stream moves over loopback, beside what its parts allow: a bare TCP connection,
// and the ciphers alone. Two hosts, each on a thread of its own as two machines would be; so are
// the two ends of the bare connection, and the two sides of the cipher.
//
//     network_bench [--megabytes N] [--rounds N]
//
// A stream can do no better than 1 / (1/tcp + 1/cipher) where each side copies and ciphers in turn;
// the table shows the share of that. Each figure is the median of the rounds, all measured in turn,
// so that a machine which slows down slows all of them. Numbers of a busy machine say nothing.
#include "net/crypto/sodium.hpp"
#include "net/host/async.hpp"
#include "net/host/host.hpp"
#include "net/noise/transport.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace exo;
using namespace exo::net;

constexpr std::size_t megabyte = 1 << 20;
constexpr std::size_t piece_bytes = 64 * 1024; // Of every read and write of the application.

double megabytes_per_second(std::size_t bytes, Duration took) {
    return static_cast<double>(bytes) / 1e6 / std::chrono::duration<double>(took).count();
}

double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
    return values[values.size() / 2];
}

[[noreturn]] void give_up(std::string const& why) {
    std::fputs((why + "\n").c_str(), stderr);
    std::exit(1);
}

// ---- a bare connection

std::pair<int, int> connected_sockets() {
    int const listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    (void)::bind(listener, name, size);
    (void)::listen(listener, 1);
    (void)::getsockname(listener, name, &size);
    int const near = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(near, name, size) != 0) {
        give_up("cannot connect over loopback");
    }
    int const far = ::accept(listener, nullptr, nullptr);
    (void)::close(listener);
    int const on = 1;
    (void)::setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return {near, far};
}

double bare_tcp(std::size_t bytes_count) {
    auto const [source, sink] = connected_sockets();
    auto const begin = now();
    std::jthread const writer([near = source, bytes_count] {
        Bytes const piece(piece_bytes, 7);
        for (std::size_t sent = 0; sent < bytes_count;) {
            auto const count = ::send(near, piece.data(), piece.size(), MSG_NOSIGNAL);
            if (count <= 0) {
                give_up("the bare connection broke");
            }
            sent += static_cast<std::size_t>(count);
        }
        (void)::shutdown(near, SHUT_WR);
    });
    Bytes piece(piece_bytes);
    while (::recv(sink, piece.data(), piece.size(), 0) > 0) {
    }
    auto const took = now() - begin;
    (void)::close(source);
    (void)::close(sink);
    return megabytes_per_second(bytes_count, took);
}

// ---- the ciphers alone

// In place and in Noise messages of the largest size, one message at a time.
struct Ciphers {
    bool is_private;
    std::array<std::uint8_t, 32> key{};
    std::array<std::uint8_t, 12> nonce{};
    std::array<std::uint8_t, 24> long_nonce{};
    Bytes message = Bytes(noise::message_bytes_max);
    std::uint64_t blocks = 0;

    void hide(std::span<std::uint8_t> bytes) {
        if (is_private) {
            crypto_stream_xsalsa20_xor_ic(
                bytes.data(), bytes.data(), bytes.size(), long_nonce.data(), blocks, key.data()
            );
            blocks += bytes.size() / 64 + 1;
        }
    }

    void encrypt() {
        crypto_aead_chacha20poly1305_ietf_encrypt(
            message.data(),
            nullptr,
            message.data(),
            noise::plain_bytes_max,
            nullptr,
            0,
            nullptr,
            nonce.data(),
            key.data()
        );
        hide(message);
    }

    // What is decrypted is not authentic after the first time, and then libsodium would stop
    // half-way: so it does by hand what decrypting is, the tag and then the key stream.
    void decrypt() {
        hide(message);
        std::array<std::uint8_t, 16> tag{};
        crypto_onetimeauth_poly1305(tag.data(), message.data(), message.size(), key.data());
        crypto_stream_chacha20_ietf_xor_ic(
            message.data(), message.data(), noise::plain_bytes_max, nonce.data(), 1, key.data()
        );
    }
};

double ciphers(std::size_t bytes_count, bool is_private) {
    auto const work = [=](void (Ciphers::*step)()) {
        Ciphers all{.is_private = is_private};
        for (std::size_t done = 0; done < bytes_count; done += noise::plain_bytes_max) {
            (all.*step)();
        }
    };
    auto const begin = now();
    {
        std::jthread const sender(work, &Ciphers::encrypt);
        work(&Ciphers::decrypt);
    }
    return megabytes_per_second(bytes_count, now() - begin);
}

// ---- a stream between two hosts

constexpr auto sink_protocol = "/exo/bench/1.0.0";

HostOptions options_of(std::uint8_t seed_byte, bool is_private) {
    Seed seed{};
    seed.fill(seed_byte);
    HostOptions options{.identity = Identity::from_seed(seed)};
    if (is_private) {
        options.psk = psk_of_namespace("bench");
    }
    options.listen = {Multiaddr::parse("/ip4/127.0.0.1/tcp/0").value()};
    options.agent_version = "exo/bench";
    options.mdns = false;
    return options;
}

// A host and the thread that turns it.
class Node {
public:
    Node(std::uint8_t seed_byte, bool is_private, std::function<void(Host&)> const& prepare)
        : work_(io_.get_executor())
        , host_(io_.get_executor(), options_of(seed_byte, is_private), {}) {
        prepare(host_);
        if (auto const started = host_.start(); !started) {
            give_up(started.error().text());
        }
        thread_ = std::thread([this] { io_.run(); });
    }

    Node(Node const&) = delete;
    Node& operator=(Node const&) = delete;

    ~Node() {
        run(host_.stop());
        work_.reset();
        thread_.join();
    }

    Host& host() { return host_; }

    // On the host's thread, while this one waits.
    template <class T>
    T run(asio::awaitable<T> work) {
        return asio::co_spawn(io_, std::move(work), asio::use_future).get();
    }

private:
    asio::io_context io_{1};
    asio::executor_work_guard<asio::io_context::executor_type> work_;
    Host host_;
    std::thread thread_;
};

// Reads to the end and says so with one byte.
asio::awaitable<void> drain(std::unique_ptr<Stream> stream) {
    Bytes piece(piece_bytes);
    while (true) {
        auto const count = co_await stream->read_some(piece);
        if (!count) {
            co_return;
        }
        if (*count == 0) {
            break;
        }
    }
    std::array<std::uint8_t, 1> const done{};
    auto const written = co_await stream->write(done);
    if (written) {
        stream->close_write();
    }
}

asio::awaitable<double> fill(Host& host, PeerId peer, std::size_t bytes_count) {
    auto opened = co_await host.open_stream(peer, sink_protocol);
    if (!opened) {
        give_up(opened.error().text());
    }
    auto& stream = **opened;
    Bytes const piece(piece_bytes, 7);
    auto const begin = now();
    for (std::size_t sent = 0; sent < bytes_count; sent += piece.size()) {
        auto const written = co_await stream.write(piece);
        if (!written) {
            give_up(written.error().text());
        }
    }
    stream.close_write();
    std::array<std::uint8_t, 1> done{};
    auto const answered = co_await stream.read_some(done);
    if (!answered || *answered != 1) {
        give_up("the stream broke");
    }
    co_return megabytes_per_second(bytes_count, now() - begin);
}

asio::awaitable<void> await_peer(Host& host) {
    while (host.connected_peers().empty()) {
        co_await pause_until(now() + 1ms);
    }
}

struct Pair {
    explicit Pair(bool is_private)
        : receiver(1, is_private, [](Host& host) { host.handle(sink_protocol, drain); })
        , sender(2, is_private, [this](Host& host) {
            host.dial(receiver.host().listen_addresses().at(0));
        }) {
        sender.run(await_peer(sender.host()));
    }

    double stream(std::size_t bytes_count) {
        return sender.run(fill(sender.host(), receiver.host().id(), bytes_count));
    }

    Node receiver;
    Node sender;
};

// ---- the table

void measure_streams(std::size_t bytes_count, int rounds) {
    fmt::print("MB/s of one stream, {} MiB at a time\n", bytes_count / megabyte);
    fmt::print(
        "{:<10}{:>8}{:>10}{:>12}{:>10}{:>8}\n",
        "network",
        "tcp",
        "cipher",
        "1/(1/+1/)",
        "stream",
        ""
    );
    for (bool const is_private : {false, true}) {
        Pair pair(is_private);
        std::vector<double> tcp;
        std::vector<double> cipher;
        std::vector<double> stream;
        for (int round = 0; round < rounds; ++round) {
            tcp.push_back(bare_tcp(bytes_count));
            cipher.push_back(ciphers(bytes_count, is_private));
            stream.push_back(pair.stream(bytes_count));
        }
        auto const bound = 1 / (1 / median(tcp) + 1 / median(cipher));
        fmt::print(
            "{:<10}{:>8.0f}{:>10.0f}{:>12.0f}{:>10.0f}{:>7.0f}%\n",
            is_private ? "private" : "public",
            median(tcp),
            median(cipher),
            bound,
            median(stream),
            100 * median(stream) / bound
        );
    }
}

} // namespace

int main(int argc, char** argv) {
    std::size_t megabytes = 256;
    int rounds = 5;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string_view const name = argv[i];
        auto const value = std::atoi(argv[i + 1]);
        if (name == "--megabytes" && value > 0) {
            megabytes = static_cast<std::size_t>(value);
        } else if (name == "--rounds" && value > 0) {
            rounds = value;
        } else {
            give_up("usage: network_bench [--megabytes N] [--rounds N]");
        }
    }
    ensure_sodium();
    measure_streams(megabytes * megabyte, rounds);
    return 0;
}
