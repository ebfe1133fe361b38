// SPDX-License-Identifier: Apache-2.0
//
// Avahi's main loop interface on ours: its watches are descriptors of Asio, its timeouts timers.
//
// Avahi creates, changes and frees watches and timeouts also inside their own callbacks, and closes
// a descriptor right after it has freed the watch. So each watch waits on a duplicate of its
// own, and each pending handler keeps its object alive and asks whether it is still wanted.
//
// One thread: the executor's. REQUIRES: outlives the AvahiServer that uses it.
#pragma once

#include "base/bytes.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <avahi-common/watch.h>
#include <functional>
#include <memory>
#include <set>

namespace exo::net::dnssd {

class AsioAvahiPoll {
public:
    // True for a datagram that Avahi may have; others are taken off their socket unseen. One that
    // is longer than mDNS allows is cut to a byte more than that.
    using Admit = std::function<bool(BytesView)>;

    AsioAvahiPoll(boost::asio::any_io_executor executor, Admit admit);
    // All that Avahi has left behind is freed.
    ~AsioAvahiPoll();
    AsioAvahiPoll(AsioAvahiPoll const&) = delete;
    AsioAvahiPoll& operator=(AsioAvahiPoll const&) = delete;

    [[nodiscard]] AvahiPoll const* api() const { return &api_; }

    [[nodiscard]] std::size_t watch_count() const { return watches_.size(); }

    [[nodiscard]] std::size_t timeout_count() const { return timeouts_.size(); }

private:
    friend struct ::AvahiWatch;
    friend struct ::AvahiTimeout;

    boost::asio::any_io_executor executor_;
    Admit admit_;
    Bytes datagram_; // The one looked at.
    AvahiPoll api_{};
    // Shared with the handlers that wait for them.
    std::set<std::shared_ptr<AvahiWatch>> watches_;
    std::set<std::shared_ptr<AvahiTimeout>> timeouts_;
};

} // namespace exo::net::dnssd
