// SPDX-License-Identifier: Apache-2.0
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/mdns/discovery.hpp"

namespace exo::net::mdns {
namespace {

void run(BytesView packet) {
    constexpr TimePoint now{};
    LinkId const link(1);
    static auto const self =
        PeerId::parse("12D3KooWRndVhVZPCiQwHBBBdg769GyrPUW13zxwqQyf9r3ANaba").value();
    Discovery discovery(self, Random(1));
    discovery.link_up(link, {Multiaddr::tcp("10.77.0.1", 4001).value()}, now);
    for (auto const* ip : {"10.77.0.2", "fe80::1"}) {
        discovery.receive(link, packet, {.ip = ip, .zone = "eth0"}, now);
    }
    while (auto const event = discovery.next_event()) {
        EXO_ASSERT(event->peer != self);
        EXO_ASSERT(event->address.tcp_target().has_value());
    }
    while (auto const answer = discovery.take_packet()) {
        EXO_ASSERT(decode(answer->bytes).has_value());
    }
}

} // namespace
} // namespace exo::net::mdns

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    exo::net::mdns::run(exo::BytesView(data, size));
    return 0;
}
