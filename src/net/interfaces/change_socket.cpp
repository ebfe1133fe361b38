// SPDX-License-Identifier: Apache-2.0
#include "net/interfaces/change_socket.hpp"

#include <array>
#include <cstdint>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#ifdef __APPLE__
#include <net/route.h>
#else
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#endif

namespace exo::net {

Result<ChangeSocket> ChangeSocket::open() {
#ifdef __APPLE__
    int const descriptor = ::socket(PF_ROUTE, SOCK_RAW, 0);
#else
    int const descriptor = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
#endif
    if (descriptor < 0) {
        return errno_error("cannot hear of changes of the network interfaces");
    }
    ChangeSocket opened(descriptor);
#ifndef __APPLE__
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
        return errno_error("cannot hear of changes of the network interfaces");
    }
#endif
    return opened;
}

ChangeSocket::ChangeSocket(ChangeSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

ChangeSocket::~ChangeSocket() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

int ChangeSocket::release() {
    return std::exchange(descriptor_, -1);
}

void ChangeSocket::drain(int descriptor) {
    std::array<std::uint8_t, 8192> ignored;
    // Messages that were lost (ENOBUFS) count like those that came: something has changed.
    while (::recv(descriptor, ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) {
    }
}

} // namespace exo::net
