// SPDX-License-Identifier: Apache-2.0
//
// A router that is node 1, what tests do with it again and again, and messages of others.
#pragma once

#include "gossip_fixture.hpp"

#include <functional>

namespace exo::net::gossipsub {

constexpr std::uint64_t first_number = 1'000;

struct Node {
    Router router;
    TimePoint now = start;

    explicit Node(std::vector<std::string> const& topics = {}, Limits limits = {})
        : router(identity(1), Random(1), first_number, start, limits) {
        for (auto const& topic : topics) {
            router.subscribe(topic, start);
        }
    }

    // All that waits for the peer, as one RPC.
    pb::Rpc sent_to(std::uint8_t number) {
        pb::Rpc all;
        while (auto const bytes = router.next_rpc(peer(number), now)) {
            all.MergeFrom(rpc_of(*bytes));
        }
        return all;
    }

    void hear(std::uint8_t number, Bytes const& rpc) {
        EXPECT_TRUE(router.receive(peer(number), rpc, now));
    }

    // Connected and subscribed; what was said about that has been sent.
    void meet(std::uint8_t number, std::string const& topic, Version version = Version::v1_2) {
        router.peer_connected(peer(number));
        router.peer_speaks(peer(number), version);
        hear(number, subscription(topic));
        (void)sent_to(number);
    }

    void control(std::uint8_t number, std::function<void(pb::Control&)> const& fill) {
        pb::Rpc rpc;
        fill(*rpc.mutable_control());
        hear(number, bytes_of(rpc));
    }

    void graft(std::uint8_t number, std::string const& topic) {
        control(number, [&](pb::Control& it) { it.add_graft()->set_topic(topic); });
    }

    void heartbeat_after(Duration time) {
        now += time;
        router.heartbeat(now);
    }

    std::vector<std::string> events() {
        std::vector<std::string> texts;
        while (auto event = router.next_event()) {
            texts.push_back(event->topic + ": " + std::string(as_text(event->data)));
        }
        return texts;
    }
};

inline SignedMessage
said_by(std::uint8_t author, std::string const& text, std::uint64_t number = 1) {
    return sign_message(identity(author), number, "a", as_bytes(text));
}

inline Bytes rpc_of_message(SignedMessage const& message) {
    return publication(*message.encoded);
}

inline std::vector<std::string> published(pb::Rpc const& rpc) {
    std::vector<std::string> texts;
    for (auto const& bytes : rpc.publish()) {
        texts.emplace_back(as_text(parse_message(as_bytes(bytes)).value().data.value()));
    }
    return texts;
}

using Texts = std::vector<std::string>;

} // namespace exo::net::gossipsub
