// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/socket.hpp"

#include "collective/tcp/listener.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace exo::collective {
namespace {

// More connections than a group has ranks: dials on several addresses, and strangers.
constexpr int backlog = 64;

#ifdef MSG_NOSIGNAL
constexpr int send_flags = MSG_NOSIGNAL | MSG_DONTWAIT;
#else
constexpr int send_flags = MSG_DONTWAIT; // SO_NOSIGPIPE is set instead.
#endif

void set_option(int descriptor, int level, int name, int value) {
    (void)setsockopt(descriptor, level, name, &value, sizeof value);
}

// What accept() and socket() cannot set at birth everywhere.
Socket prepared(int descriptor) {
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    (void)fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
#ifdef SO_NOSIGPIPE
    set_option(descriptor, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    return Socket(descriptor);
}

Result<Socket> new_socket(int family) {
#ifdef SOCK_CLOEXEC
    int const descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
#else
    int const descriptor = socket(family, SOCK_STREAM, 0);
#endif
    if (descriptor < 0) {
        return errno_error("cannot make a socket");
    }
    return prepared(descriptor);
}

bool would_block(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// Of a call that has just returned `count`.
Result<std::size_t> sent_bytes(ssize_t count) {
    if (count >= 0) {
        return static_cast<std::size_t>(count);
    }
    if (would_block(errno)) {
        return std::size_t{0};
    }
    return errno_error("send");
}

Result<std::optional<std::size_t>> received_bytes(ssize_t count) {
    if (count >= 0) {
        return std::optional(static_cast<std::size_t>(count));
    }
    if (would_block(errno)) {
        return std::optional<std::size_t>();
    }
    return errno_error("receive");
}

} // namespace

Socket::~Socket() {
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

Result<Address> Address::parse(std::string const& ip, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV; // Never asks a name server.
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    int const error = getaddrinfo(ip.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (error != 0) {
        return Error(
            Errc::invalid_argument,
            fmt::format("'{}' is no IP address: {}", ip, gai_strerror(error))
        );
    }
    Address address;
    std::memcpy(address.storage_.data(), found->ai_addr, found->ai_addrlen);
    address.size_ = found->ai_addrlen;
    freeaddrinfo(found);
    return address;
}

Address Address::of_peer(Socket const& socket) {
    Address address;
    socklen_t size = address.storage_.size();
    auto* const name = reinterpret_cast<sockaddr*>(address.storage_.data());
    address.size_ = getpeername(socket.descriptor(), name, &size) == 0 ? size : 0;
    return address;
}

Address Address::of_self(Socket const& socket) {
    Address address;
    socklen_t size = address.storage_.size();
    auto* const name = reinterpret_cast<sockaddr*>(address.storage_.data());
    address.size_ = getsockname(socket.descriptor(), name, &size) == 0 ? size : 0;
    return address;
}

std::string Address::ip() const {
    char host[NI_MAXHOST] = "unknown";
    auto const* const name = reinterpret_cast<sockaddr const*>(storage_.data());
    if (size_ > 0) {
        (void)getnameinfo(name, size_, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    }
    std::string text = host;
    constexpr std::string_view mapped = "::ffff:";
    if (text.starts_with(mapped) && text.find('.') != std::string::npos) {
        text.erase(0, mapped.size());
    }
    return text;
}

std::uint16_t Address::port() const {
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    std::memcpy(&v6, storage_.data(), sizeof v6);
    std::memcpy(&v4, storage_.data(), sizeof v4);
    return ntohs(v6.sin6_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
}

std::string Address::text() const {
    auto const host = ip();
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port())
                                               : fmt::format("[{}]:{}", host, port());
}

std::optional<std::array<std::uint8_t, 16>> Address::ip_bytes() const {
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    std::memcpy(&v6, storage_.data(), sizeof v6);
    std::memcpy(&v4, storage_.data(), sizeof v4);
    std::array<std::uint8_t, 16> bytes{};
    if (size_ > 0 && v6.sin6_family == AF_INET6) {
        std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
        return bytes;
    }
    if (size_ > 0 && v4.sin_family == AF_INET) {
        bytes[10] = bytes[11] = 0xff;
        std::memcpy(bytes.data() + 12, &v4.sin_addr, 4);
        return bytes;
    }
    return std::nullopt;
}

bool Address::same_ip(Address const& other) const {
    return size_ > 0 && ip() == other.ip();
}

Result<Socket> listen_on_any_port() {
    auto socket = new_socket(AF_INET6);
    sockaddr_in6 any_v6{};
    any_v6.sin6_family = AF_INET6;
    any_v6.sin6_addr = in6addr_any;
    sockaddr_in any_v4{};
    any_v4.sin_family = AF_INET;
    bool bound = false;
    if (socket) {
        set_option(socket->descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, 0); // IPv4 comes here too.
        auto const* const name = reinterpret_cast<sockaddr const*>(&any_v6);
        bound = bind(socket->descriptor(), name, sizeof any_v6) == 0;
    }
    if (!bound) { // This system has no IPv6.
        socket = new_socket(AF_INET);
        if (!socket) {
            return socket;
        }
        auto const* const name = reinterpret_cast<sockaddr const*>(&any_v4);
        bound = bind(socket->descriptor(), name, sizeof any_v4) == 0;
    }
    if (!bound || ::listen(socket->descriptor(), backlog) != 0) {
        return errno_error("cannot open a port for the other ranks");
    }
    return socket;
}

Result<Listener> Listener::open() {
    auto socket = listen_on_any_port();
    if (!socket) {
        return socket.error();
    }
    auto const port = Address::of_self(*socket).port();
    return Listener(std::move(*socket), port);
}

Result<Socket> start_connect(Address const& address) {
    auto const* const name = reinterpret_cast<sockaddr const*>(address.storage_.data());
    auto socket = new_socket(name->sa_family);
    if (!socket) {
        return socket;
    }
    if (connect(socket->descriptor(), name, address.size_) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        return errno_error("connect");
    }
    return socket;
}

Result<void> connect_result(Socket const& socket) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    if (error != 0) {
        return io_error("connect", std::error_code(error, std::generic_category()));
    }
    return {};
}

std::optional<Socket> accept_one(Socket const& listener) {
    int const descriptor = accept(listener.descriptor(), nullptr, nullptr);
    if (descriptor < 0) {
        return std::nullopt; // Nobody, or one who left while waiting.
    }
    return prepared(descriptor);
}

Result<std::size_t> send_some(Socket const& socket, BytesView bytes) {
    return sent_bytes(::send(socket.descriptor(), bytes.data(), bytes.size(), send_flags));
}

Result<std::size_t> send_some(Socket const& socket, BytesView first, BytesView second) {
    std::array<iovec, 2> pieces{
        iovec{const_cast<std::uint8_t*>(first.data()), first.size()}, // Only read from.
        iovec{const_cast<std::uint8_t*>(second.data()), second.size()},
    };
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    return sent_bytes(sendmsg(socket.descriptor(), &message, send_flags));
}

Result<std::optional<std::size_t>>
receive_some(Socket const& socket, std::span<std::uint8_t> into) {
    return received_bytes(recv(socket.descriptor(), into.data(), into.size(), MSG_DONTWAIT));
}

Result<std::optional<std::size_t>>
receive_some(Socket const& socket, std::span<std::uint8_t> first, std::span<std::uint8_t> second) {
    std::array<iovec, 2> places{
        iovec{first.data(), first.size()}, iovec{second.data(), second.size()}
    };
    msghdr message{};
    message.msg_iov = places.data();
    message.msg_iovlen = places.size();
    return received_bytes(recvmsg(socket.descriptor(), &message, MSG_DONTWAIT));
}

void set_low_water(Socket const& socket, std::size_t bytes) {
    set_option(socket.descriptor(), SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(bytes));
}

void shut_down_writing(Socket const& socket) {
    (void)shutdown(socket.descriptor(), SHUT_WR);
}

bool is_within_machine(Socket const& socket) {
    return Address::of_peer(socket).same_ip(Address::of_self(socket));
}

} // namespace exo::collective
