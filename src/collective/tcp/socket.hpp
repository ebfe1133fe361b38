// SPDX-License-Identifier: Apache-2.0
//
// The system calls of sockets that a group needs, with our errors. Every socket is non-blocking,
// close-on-exec and raises no SIGPIPE, from birth.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace exo::collective {

// Owns a descriptor.
class Socket {
public:
    Socket() = default;

    explicit Socket(int descriptor)
        : descriptor_(descriptor) {}

    Socket(Socket&& other) noexcept
        : descriptor_(std::exchange(other.descriptor_, -1)) {}

    Socket& operator=(Socket&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }

    ~Socket();

    [[nodiscard]] int descriptor() const { return descriptor_; }

private:
    int descriptor_ = -1;
};

// The address of one end of a connection.
class Address {
public:
    // `ip` is numeric, an IPv6 zone is allowed. Error: invalid_argument.
    [[nodiscard]] static Result<Address> parse(std::string const& ip, std::uint16_t port);
    [[nodiscard]] static Address of_peer(Socket const& socket);
    [[nodiscard]] static Address of_self(Socket const& socket);

    // "10.0.0.2:4000", "[fe80::1%eth0]:4000"; an IPv4 address in an IPv6 socket reads as IPv4.
    [[nodiscard]] std::string text() const;

    [[nodiscard]] std::uint16_t port() const;

    // The address alone; IPv4 as ::ffff:a.b.c.d. Nothing when there is none.
    [[nodiscard]] std::optional<std::array<std::uint8_t, 16>> ip_bytes() const;

    // Whether both are of one machine's interface; ports do not matter.
    [[nodiscard]] bool same_ip(Address const& other) const;

private:
    friend Result<Socket> start_connect(Address const& address);

    [[nodiscard]] std::string ip() const;

    alignas(8) std::array<std::uint8_t, 128> storage_{}; // A sockaddr_storage.
    std::uint32_t size_ = 0;
};

// On all addresses, of both families where the system has IPv6, at a port that it chooses.
[[nodiscard]] Result<Socket> listen_on_any_port();

// The connection is there when the socket becomes writable and connect_result() is a success.
[[nodiscard]] Result<Socket> start_connect(Address const& address);
[[nodiscard]] Result<void> connect_result(Socket const& socket);

// Nothing when nobody waits.
[[nodiscard]] std::optional<Socket> accept_one(Socket const& listener);

// How many bytes were taken: 0 when the socket is full.
[[nodiscard]] Result<std::size_t> send_some(Socket const& socket, BytesView bytes);

// The same of two pieces, one after the other.
[[nodiscard]] Result<std::size_t>
send_some(Socket const& socket, BytesView first, BytesView second);

// How many bytes came: 0 at the end of the stream, nothing when there are none now.
[[nodiscard]] Result<std::optional<std::size_t>>
receive_some(Socket const& socket, std::span<std::uint8_t> into);

// The same into two places, one after the other.
[[nodiscard]] Result<std::optional<std::size_t>>
receive_some(Socket const& socket, std::span<std::uint8_t> first, std::span<std::uint8_t> second);

// The socket counts as readable from so many bytes on (and always at its end). Where the system
// does not know this, it counts as readable from the first byte.
void set_low_water(Socket const& socket, std::size_t bytes);

// No more bytes to the peer; it sees the end of the stream.
void shut_down_writing(Socket const& socket);

// Both ends of the connection are on this machine.
[[nodiscard]] bool is_within_machine(Socket const& socket);

} // namespace exo::collective
