// SPDX-License-Identifier: Apache-2.0
//
// The port at which the other ranks will find this one. It is opened before anyone knows the other
// ranks' addresses, because its number is what they must be told (ipc::Listening).
#pragma once

#include "base/result.hpp"
#include "collective/tcp/socket.hpp"

#include <cstdint>

namespace exo::collective {

class Listener {
public:
    // On all addresses of both families, at a port that the system chooses.
    [[nodiscard]] static Result<Listener> open();

    [[nodiscard]] std::uint16_t port() const { return port_; }

    [[nodiscard]] Socket const& socket() const { return socket_; }

private:
    Listener(Socket socket, std::uint16_t port)
        : socket_(std::move(socket))
        , port_(port) {}

    Socket socket_;
    std::uint16_t port_;
};

} // namespace exo::collective
