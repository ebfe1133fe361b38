// SPDX-License-Identifier: Apache-2.0
//
// Keeps the LinkFacts of one interface and address family, told by the socket of mDNS what it sends
// and receives. Pure, bounded.
#pragma once

#include "base/bytes.hpp"
#include "net/diagnosis/facts.hpp"

#include <deque>
#include <string>
#include <string_view>

namespace exo::net {

// Machines of one link; of more, those heard last.
constexpr std::size_t heard_max = 64;
constexpr std::size_t twins_max = 4;

class LinkLog {
public:
    // `facts`: the interface, without anything heard.
    explicit LinkLog(LinkFacts facts)
        : facts_(std::move(facts)) {}

    // What changes while a link stays.
    void set_addresses(std::vector<InterfaceAddress> addresses);

    // The socket could not be made, or a packet not sent; empty: all is well again.
    void set_error(std::string error) { facts_.error = std::move(error); }

    void sent(BytesView packet);
    void received(BytesView packet, std::string const& ip, bool is_this_machine, TimePoint now);
    // Somebody else announces `address` under our peer id. True if that is new.
    bool met_twin(Multiaddr const& address, TimePoint now);

    [[nodiscard]] LinkFacts const& facts() const { return facts_; }

private:
    // The kernel brings a packet back at once: that of a few packets ago is not waited for.
    static constexpr std::size_t sent_kept = 8;

    LinkFacts facts_;
    std::deque<std::size_t> sent_; // Hashes of the last packets.
};

} // namespace exo::net
