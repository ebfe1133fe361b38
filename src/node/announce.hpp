// SPDX-License-Identifier: Apache-2.0
//
// This node in DNS-SD (`_exo._tcp.local`): what it says of itself, and the nodes of its network
// that it hears of, which it dials. One thread.
#pragma once

#include "net/crypto/psk.hpp"
#include "net/dnssd/driver/service.hpp"
#include "net/host/host.hpp"
#include "node/options.hpp"
#include "node/scope.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::node {

class Announce {
public:
    // A node that was lost without a good-bye, or that could not be reached at first, is dialled
    // again so often while it announces itself.
    static constexpr Duration redial_interval = 30s;

    // `scope` and `host` outlive this.
    Announce(Scope& scope, net::Host& host, NodeOptions const& options, std::string exo_version);
    ~Announce();
    Announce(Announce const&) = delete;
    Announce& operator=(Announce const&) = delete;

    // After host.start(). `api_port`: 0 without an API.
    void start(std::optional<net::Psk> const& psk, std::uint16_t api_port);

    // Says good-bye. Idempotent.
    void stop();

    // This node is in another network now.
    void set_psk(std::optional<net::Psk> const& psk);

    // Of other nodes; nothing before start().
    [[nodiscard]] std::vector<net::AnnouncedFacts> facts() const;

private:
    [[nodiscard]] net::dnssd::Announcement announcement(std::optional<net::Psk> const& psk) const;
    void dial(net::dnssd::Found const& found);
    asio::awaitable<void> redial();

    Scope& scope_;
    net::Host& host_;
    NodeOptions const& options_;
    std::string exo_version_;
    std::unique_ptr<net::dnssd::Service> service_;
};

} // namespace exo::node
