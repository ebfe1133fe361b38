// SPDX-License-Identifier: Apache-2.0
#include "node/announce.hpp"

#include "base/log.hpp"
#include "system/machine.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>

namespace exo::node {
namespace {

#ifdef __APPLE__
constexpr char const* os_type = "macos";
#else
constexpr char const* os_type = "linux";
#endif

// Who can use the port that is announced.
std::string reach_of_api(NodeOptions const& options) {
    if (!options.api) {
        return "none";
    }
    boost::system::error_code error;
    auto const ip = asio::ip::make_address(options.api_host, error);
    bool const is_local = error ? options.api_host == "localhost" : ip.is_loopback();
    return is_local ? "local" : "lan";
}

} // namespace

Announce::Announce(
    Scope& scope, net::Host& host, NodeOptions const& options, std::string exo_version
)
    : scope_(scope)
    , host_(host)
    , options_(options)
    , exo_version_(std::move(exo_version)) {}

Announce::~Announce() = default;

void Announce::start(std::optional<net::Psk> const& psk, std::uint16_t api_port) {
    net::dnssd::ServiceOptions options{
        .self = host_.id(),
        .name = system::identity().friendly_name,
        .port = api_port != 0 ? api_port : net::dnssd::default_port,
        .listen = host_.listen_addresses(),
        .announcement = announcement(psk),
    };
    service_ = std::make_unique<net::dnssd::Service>(
        scope_.executor(), std::move(options), [this](auto const& found) { dial(found); }
    );
    scope_.spawn("DNS-SD", service_->run());
    scope_.spawn("DNS-SD's redialling", redial());
}

void Announce::stop() {
    if (service_) {
        service_->stop();
    }
}

void Announce::set_psk(std::optional<net::Psk> const& psk) {
    if (service_) {
        service_->set_announcement(announcement(psk));
    }
}

std::vector<net::AnnouncedFacts> Announce::facts() const {
    return service_ ? service_->facts() : std::vector<net::AnnouncedFacts>();
}

// What exo can use here. It computes on GPUs, but which one a runner finds, and with how much
// memory, only the runner knows; and it has no transport for RDMA.
net::dnssd::Announcement Announce::announcement(std::optional<net::Psk> const& psk) const {
    return {
        .device_id = host_.id().text(),
        .os_type = os_type,
        .memory_bytes = system::memory().ram_total.in_bytes,
        .gpu_memory_bytes = 0,
        .rdma_support = false,
        .version = exo_version_,
        .network = net::dnssd::network_hash(psk),
        .api = reach_of_api(options_),
    };
}

void Announce::dial(net::dnssd::Found const& found) {
    if (std::ranges::count(host_.connected_peers(), found.peer) > 0) {
        return;
    }
    for (auto const& address : found.addresses) {
        log::debug("dns-sd", "{} is at {}", found.peer.short_text(), address.text());
        host_.dial(address.with_peer(found.peer));
    }
}

asio::awaitable<void> Announce::redial() {
    while (true) {
        co_await sleep_for(redial_interval);
        for (auto const& found : service_->of_our_network()) {
            dial(found);
        }
    }
}

} // namespace exo::node
