// SPDX-License-Identifier: Apache-2.0
//
// A sequence of RPCs, each with a length of two bytes before it, to a router with three peers. The
// corpus holds signed messages, so that mutations reach the code behind the signature.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/gossipsub/router.hpp"

namespace exo::net::gossipsub {
namespace {

Identity identity(std::uint8_t fill) {
    Seed seed;
    seed.fill(fill);
    return Identity::from_seed(seed);
}

void drain(Router& router, TimePoint now) {
    while (router.next_event()) {
    }
    for (auto const& peer : router.ready_peers()) {
        while (auto const rpc = router.next_rpc(peer, now)) {
            EXO_ASSERT(rpc->size() <= Limits().rpc_bytes_max);
        }
        EXO_ASSERT(!router.has_rpc(peer));
    }
}

void run(BytesView input) {
    static auto const own = identity(9);
    static std::vector<PeerId> const peers{
        identity(1).peer_id(), identity(2).peer_id(), identity(3).peer_id()
    };
    TimePoint now{};
    Router router(own, Random(1), 1, now);
    for (auto const* topic : {"a", "b", "test-topic"}) {
        router.subscribe(topic, now);
    }
    for (auto const& peer : peers) {
        router.peer_connected(peer);
        router.peer_speaks(peer, Version::v1_2);
    }
    for (std::size_t turn = 0; input.size() >= 2; ++turn) {
        std::size_t const length = input[0] * 256U + input[1];
        input = input.subspan(2);
        auto const rpc = input.first(std::min(length, input.size()));
        input = input.subspan(rpc.size());
        (void)router.receive(peers[turn % peers.size()], rpc, now);
        if (turn % 4 == 3) {
            now += 1s;
            router.heartbeat(now);
        }
        EXO_ASSERT(router.mesh("a").size() <= peers.size());
        drain(router, now);
    }
}

} // namespace
} // namespace exo::net::gossipsub

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    exo::net::gossipsub::run(exo::BytesView(data, size));
    return 0;
}
