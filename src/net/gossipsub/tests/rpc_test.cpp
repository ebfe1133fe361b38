// SPDX-License-Identifier: Apache-2.0
//
// Reading RPCs in place: the protobuf library, which other peers use, is the judge.
#include "base/random.hpp"
#include "gossip_fixture.hpp"
#include "net/gossipsub/rpc.hpp"

namespace exo::net::gossipsub {
namespace {

std::string some_text(Random& random) {
    return std::string(random.below(200), static_cast<char>('a' + random.below(26)));
}

pb::Rpc some_rpc(Random& random) {
    pb::Rpc rpc;
    auto const times = [&](auto const& act) {
        for (auto count = random.below(4); count > 0; --count) {
            act();
        }
    };
    times([&] {
        auto& entry = *rpc.add_subscriptions();
        entry.set_subscribe(random.chance(1, 2));
        entry.set_topic(some_text(random));
    });
    times([&] { rpc.add_publish(some_text(random)); });
    auto& control = *rpc.mutable_control();
    times([&] {
        auto& ihave = *control.add_ihave();
        times([&] { ihave.add_ids(some_text(random)); });
        ihave.set_topic(some_text(random));
    });
    times([&] { control.add_iwant()->add_ids(some_text(random)); });
    times([&] { control.add_graft()->set_topic(some_text(random)); });
    times([&] {
        auto& prune = *control.add_prune();
        prune.set_topic(some_text(random));
        prune.set_backoff_seconds(random.next());
    });
    times([&] { control.add_idontwant()->add_ids(some_text(random)); });
    return rpc;
}

// What was read, as the library would have it.
pb::Rpc as_library(ReceivedRpc const& received) {
    pb::Rpc rpc;
    for (auto const& one : received.subscriptions) {
        auto& entry = *rpc.add_subscriptions();
        entry.set_subscribe(one.subscribe);
        entry.set_topic(std::string(one.topic));
    }
    for (auto const& one : received.messages) {
        rpc.add_publish(std::string(as_text(one)));
    }
    auto& control = *rpc.mutable_control();
    for (auto const& one : received.ihave) {
        auto& ihave = *control.add_ihave();
        ihave.set_topic(std::string(one.topic));
        for (auto const& id : one.ids) {
            ihave.add_ids(std::string(id));
        }
    }
    for (auto const& id : received.iwant) {
        control.add_iwant()->add_ids(std::string(id));
    }
    for (auto const& topic : received.graft) {
        control.add_graft()->set_topic(std::string(topic));
    }
    for (auto const& one : received.prune) {
        auto& prune = *control.add_prune();
        prune.set_topic(std::string(one.topic));
        prune.set_backoff_seconds(one.backoff_seconds);
    }
    for (auto const& id : received.dont_want) {
        control.add_idontwant()->add_ids(std::string(id));
    }
    return rpc;
}

TEST(GossipRpc, holds_what_the_protobuf_library_has_written) {
    Random random(1);
    for (int i = 0; i < 500; ++i) {
        auto const rpc = some_rpc(random);
        auto const bytes = bytes_of(rpc);
        auto const received = read_rpc(bytes, {});
        ASSERT_TRUE(received) << received.error().text();
        EXPECT_FALSE(received->is_cut);
        EXPECT_EQ(as_library(*received).SerializeAsString(), rpc.SerializeAsString());
    }
}

TEST(GossipRpc, spoiled_anywhere_is_refused_by_both_or_read_alike) {
    Random random(2);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
        auto bytes = bytes_of(some_rpc(random));
        if (bytes.empty()) {
            continue;
        }
        auto const at = random.below(bytes.size());
        bytes[at] = static_cast<std::uint8_t>(random.next());
        bytes.resize(random.chance(1, 4) ? at : bytes.size());
        pb::Rpc rpc;
        bool const is_rpc = rpc.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
        auto const received = read_rpc(bytes, {});
        if (received) {
            ASSERT_TRUE(is_rpc) << to_hex(bytes);
            EXPECT_EQ(received->messages.size(), static_cast<std::size_t>(rpc.publish_size()));
            EXPECT_EQ(
                received->subscriptions.size(), static_cast<std::size_t>(rpc.subscriptions_size())
            );
        }
        refused += received ? 0 : 1;
    }
    EXPECT_GT(refused, 300);
}

TEST(GossipRpc, all_recorded_ones_of_rust_js_and_go_are_read) {
    std::size_t count = 0;
    auto const file = vectors("wire.json");
    for (auto const& session : file.at("sessions")) {
        for (auto const& entry : session.at("gossipsub_rpcs")) {
            auto const bytes = hex(entry.at("with_length_prefix").get<std::string>());
            std::ptrdiff_t const prefix = bytes[0] < 0x80 ? 1 : bytes[1] < 0x80 ? 2 : 3;
            Bytes const rpc(bytes.begin() + prefix, bytes.end());
            auto const received = read_rpc(rpc, {});
            ASSERT_TRUE(received) << received.error().text();
            EXPECT_EQ(
                received->messages.size(), static_cast<std::size_t>(rpc_of(rpc).publish_size())
            );
            ++count;
        }
    }
    EXPECT_GE(count, 29U);
}

TEST(GossipRpc, fields_of_other_versions_are_skipped_at_every_level) {
    // Field 9 in the RPC, in a subscription (go has 3 and 4), in control and in a graft.
    auto const bytes = hex("4a0161 0a09 08011201611800 2000 1a0a 4a0161 1a05 0a016248 01");
    auto const received = read_rpc(bytes, {});
    ASSERT_TRUE(received) << received.error().text();
    ASSERT_EQ(received->subscriptions.size(), 1U);
    EXPECT_EQ(received->subscriptions[0].topic, "a");
    EXPECT_TRUE(received->subscriptions[0].subscribe);
    ASSERT_EQ(received->graft.size(), 1U);
    EXPECT_EQ(received->graft[0], "b");
}

} // namespace
} // namespace exo::net::gossipsub
