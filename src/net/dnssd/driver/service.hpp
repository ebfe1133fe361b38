// SPDX-License-Identifier: Apache-2.0
//
// DNS-SD of one node: keeps its announcement up to date as addresses come and go, and the directory
// of what others announce. Where the system has no DNS-SD to offer it says so once, and tries again
// for ever.
//
// One thread: the executor's, and callbacks are called on it.
#pragma once

#include "base/result.hpp"
#include "net/dnssd/directory.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace exo::net::dnssd {

struct ServiceOptions {
    PeerId self;
    std::string name; // Of the instance: what people call this machine.
    std::uint16_t port = default_port;
    std::vector<Multiaddr> listen; // Of libp2p, with their real ports.
    Announcement announcement;     // Its addresses are filled in here.
    // A cable is plugged in, a lease changes: announced within this time. As often as libp2p's
    // mDNS.
    Duration refresh_interval = 5s;
    // After a failure; doubled each time, up to five minutes.
    Duration retry_first = 5s;
};

class Service {
public:
    using OnFound = std::function<void(Found const&)>;

    Service(boost::asio::any_io_executor executor, ServiceOptions options, OnFound on_found);
    // Says good-bye, if stop() has not.
    ~Service();
    Service(Service const&) = delete;
    Service& operator=(Service const&) = delete;

    // Works until it is cancelled or stop() is called. Once.
    [[nodiscard]] boost::asio::awaitable<void> run();

    // Says good-bye. Idempotent, and allowed before run().
    void stop();

    // Another network from now on, or other facts of this machine. Its addresses are passed over.
    void set_announcement(Announcement announcement);

    // The name under which we are known; empty while it is not known yet.
    [[nodiscard]] std::string const& established_name() const;

    [[nodiscard]] std::vector<Found> of_our_network() const;
    [[nodiscard]] std::vector<AnnouncedFacts> facts() const;

private:
    class Impl;
    std::shared_ptr<Impl> impl_; // Shared with run(), which may end after us.
};

} // namespace exo::net::dnssd
