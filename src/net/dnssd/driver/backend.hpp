// SPDX-License-Identifier: Apache-2.0
//
// What the operating system has for DNS-SD: Avahi's library on Linux (avahi_backend.cpp), Bonjour
// on macOS (bonjour_backend.cpp). A backend announces one instance, under the first name that is
// free, and tells what others announce. It decides nothing else; Service drives it.
//
// One thread: the executor's. Dropping it says good-bye to the network and calls nothing any more.
#pragma once

#include "base/result.hpp"
#include "net/dnssd/announcement.hpp"
#include "net/dnssd/directory.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace exo::net::dnssd {

// An address of this machine.
struct HostAddress {
    std::uint32_t interface_index = 0;
    std::string ip; // Without a zone.
    auto operator<=>(HostAddress const&) const = default;
};

// What is to be announced.
struct Registration {
    // Of the instance, if it is free; else numbered_name(), until one is. The system waits longer
    // between tries after some (Avahi: 20 s after 15).
    std::string name;
    std::string host; // A label, without ".local"; the same rule.
    std::uint16_t port = default_port;
    // By interface index: what is said there names the addresses that can be reached there. An
    // address of another interface is another machine's there, or nobody's (a docker0 has the same
    // address everywhere).
    std::map<std::uint32_t, std::vector<std::string>> texts;
    std::vector<HostAddress> addresses; // Of the host, each announced on its interface.
    bool operator==(Registration const&) const = default;
};

// Called from the event loop, never from within a call of the backend; may call the backend, and
// must not destroy it.
struct BackendEvents {
    // False: no interest in its TXT record.
    std::function<bool(std::string const& name, Link const& link)> on_appeared;
    std::function<void(
        std::string const& name, std::string const& interface, std::vector<std::string> const& texts
    )>
        on_described;
    // True: nowhere any more.
    std::function<bool(std::string const& name, Link const& link)> on_vanished;
    // The name under which we are known now.
    std::function<void(std::string const& name)> on_established;
    // It is of no more use; once.
    std::function<void(Error const& why)> on_failed;
};

class Backend {
public:
    virtual ~Backend() = default;

    // What has changed since the last call is changed on the network. Called every few seconds.
    virtual void publish(Registration const& wanted) = 0;
};

// Starts browsing. Error: unavailable, with the words of Avahi or Bonjour.
[[nodiscard]] Result<std::unique_ptr<Backend>>
make_backend(boost::asio::any_io_executor executor, BackendEvents events);

} // namespace exo::net::dnssd
