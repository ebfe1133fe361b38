// SPDX-License-Identifier: Apache-2.0
//
// Waits for a change of this machine's network interfaces. One thread; owned by the Host, which
// then scans (net/interfaces/scan.hpp).
#pragma once

#include "net/host/async.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

namespace exo::net {

class InterfaceWatcher {
public:
    // Looks again after this long even if the system has said nothing.
    static constexpr Duration poll_interval = 15s;
    // Changes come in bursts: a link comes up, then its addresses, one after the other.
    static constexpr Duration settle_time = 100ms;

    explicit InterfaceWatcher(asio::any_io_executor const& executor);

    // Completes when something may have changed. By one coroutine at a time.
    asio::awaitable<void> changed();

private:
    asio::posix::stream_descriptor socket_; // Closed where the system does not let us listen.
};

} // namespace exo::net
