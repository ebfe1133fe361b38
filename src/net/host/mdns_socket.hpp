// SPDX-License-Identifier: Apache-2.0
//
// The sockets of mDNS: one for each interface that can multicast, IPv4 and IPv6. Interfaces are
// looked up again when the Host says that they have changed, and every few seconds. What is said is
// decided by mdns::Discovery; no error of a single socket ends it.
//
// One thread: the executor's. Owned by the Host, which awaits run().
#pragma once

#include "base/result.hpp"
#include "net/diagnosis/facts.hpp"
#include "net/mdns/discovery.hpp"
#include "net/wire/multiaddr.hpp"
#include "net/wire/peer_id.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace exo::net {

class MdnsSocket {
public:
    // Called on the executor.
    using OnDiscovered = std::function<void(mdns::Discovered const&)>;

    // `listen`: the host's addresses with their real ports.
    MdnsSocket(
        boost::asio::any_io_executor executor,
        PeerId self,
        std::vector<Multiaddr> listen,
        OnDiscovered on_discovered
    );
    ~MdnsSocket();
    MdnsSocket(MdnsSocket const&) = delete;
    MdnsSocket& operator=(MdnsSocket const&) = delete;

    // Works until stop(); completes when no coroutine of it is left. Once.
    [[nodiscard]] boost::asio::awaitable<void> run();

    // Idempotent, and allowed before run().
    void stop();

    // Looks at the interfaces now.
    void interfaces_changed();

    // Asks eagerly again: a peer has gone.
    void search();

    // Asks on every interface for any service of DNS-SD: whatever speaks mDNS there answers, also
    // printers and televisions. For a test of the network; discovery does not need it.
    void ask_everybody();

    // Fills in the links: the interfaces that are there, and what was sent and heard on each.
    void tell(NetworkFacts& facts) const;

private:
    class Impl;
    std::shared_ptr<Impl> impl_; // Shared with its coroutines, which may end after us.
};

} // namespace exo::net
