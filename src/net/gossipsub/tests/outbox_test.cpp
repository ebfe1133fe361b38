// SPDX-License-Identifier: Apache-2.0
//
// Packing into RPCs: bytes of js and rust (specs/libp2p.md 13), order, limits.
#include "gossip_fixture.hpp"

#include <functional>

namespace exo::net::gossipsub {
namespace {

constexpr std::size_t queue_bytes = 1024 * 1024;

std::shared_ptr<Bytes const> body(std::size_t size, std::uint8_t fill = 7) {
    return std::make_shared<Bytes const>(Bytes(size, fill));
}

Bytes taken(Outbox& outbox) {
    auto const rpc = outbox.take({});
    EXPECT_TRUE(rpc);
    return rpc.value_or(Bytes());
}

TEST(Outbox, writes_each_kind_of_entry_as_js_and_rust_do) {
    struct Row {
        char const* key;
        std::function<void(Outbox&)> put;
    };

    auto const expected = vectors("js.json").at("gossipsub_rpc");
    std::vector<Row> const rows{
        {"subscribe_a", [](Outbox& it) { it.announce("a", true); }},
        {"unsubscribe_a", [](Outbox& it) { it.announce("a", false); }},
        {"graft_a", [](Outbox& it) { it.graft("a"); }},
        {"prune_a_backoff_60", [](Outbox& it) { it.prune("a", 60s); }},
        {"ihave_a_id_1", [](Outbox& it) { it.ihave("a", {"id-1"}); }},
        {"iwant_id_1", [](Outbox& it) { it.iwant("id-1"); }},
        {"idontwant_id_1", [](Outbox& it) { it.dont_want("id-1"); }},
    };
    EXPECT_EQ(rows.size(), expected.size());
    for (auto const& row : rows) {
        Outbox outbox;
        EXPECT_TRUE(outbox.empty());
        row.put(outbox);
        EXPECT_FALSE(outbox.empty());
        EXPECT_EQ(to_hex(taken(outbox)), expected.at(row.key).get<std::string>()) << row.key;
        EXPECT_TRUE(outbox.empty());
        EXPECT_FALSE(outbox.take({}));
    }
}

TEST(Outbox, the_last_word_on_a_topic_counts) {
    Outbox outbox;
    outbox.announce("a", true);
    outbox.announce("a", false);
    outbox.prune("a", 60s);
    outbox.graft("a");
    auto const rpc = rpc_of(taken(outbox));
    ASSERT_EQ(rpc.subscriptions_size(), 1);
    EXPECT_FALSE(rpc.subscriptions(0).subscribe());
    EXPECT_EQ(rpc.control().graft_size(), 1);
    EXPECT_EQ(rpc.control().prune_size(), 0);
}

TEST(Outbox, a_subscription_never_comes_after_its_graft) {
    Outbox outbox;
    outbox.push("m", body(100), start, queue_bytes);
    outbox.graft("a");
    outbox.announce("a", true);
    auto const rpc = rpc_of(taken(outbox));
    EXPECT_EQ(rpc.subscriptions_size(), 1);
    EXPECT_EQ(rpc.control().graft_size(), 1);
    EXPECT_EQ(rpc.publish_size(), 1);
}

TEST(Outbox, small_messages_share_an_rpc_and_large_ones_travel_alone) {
    Outbox outbox;
    outbox.push("small 1", body(100), start, queue_bytes);
    outbox.push("small 2", body(100), start, queue_bytes);
    outbox.push("large 1", body(100'000), start, queue_bytes);
    outbox.push("large 2", body(100'000), start, queue_bytes);
    outbox.push("small 3", body(100), start, queue_bytes);
    outbox.graft("a");
    std::vector<int> counts;
    while (auto const bytes = outbox.take({})) {
        counts.push_back(rpc_of(*bytes).publish_size());
    }
    EXPECT_EQ(counts, (std::vector<int>{2, 1, 1, 1}));
    EXPECT_EQ(outbox.bytes_count(), 0U);
}

TEST(Outbox, a_message_alone_makes_an_rpc_of_the_size_foretold) {
    for (std::size_t const size : {1U, 127U, 128U, 16'383U, 16'384U, 100'000U}) {
        Outbox outbox;
        outbox.push("m", body(size), start, queue_bytes);
        EXPECT_EQ(taken(outbox).size(), rpc_bytes_of(size));
    }
}

TEST(Outbox, a_full_queue_loses_the_oldest) {
    Outbox outbox;
    EXPECT_EQ(outbox.push("a", body(60, 1), start, 100), 0U);
    EXPECT_EQ(outbox.push("b", body(30, 2), start, 100), 0U);
    EXPECT_EQ(outbox.push("c", body(90, 3), start, 100), 2U);
    auto const rpc = rpc_of(taken(outbox));
    ASSERT_EQ(rpc.publish_size(), 1);
    EXPECT_EQ(rpc.publish(0), std::string(90, 3));
}

TEST(Outbox, what_is_too_old_or_unwanted_is_not_sent) {
    Outbox outbox;
    outbox.push("old", body(1, 1), start, queue_bytes);
    outbox.push("unwanted", body(2, 2), start + 9s, queue_bytes);
    outbox.push("fresh", body(3, 3), start + 9s, queue_bytes);
    EXPECT_EQ(outbox.drop_before(start + 1s), 1U);
    auto const bytes = outbox.take({{"unwanted", start}});
    ASSERT_TRUE(bytes);
    auto const rpc = rpc_of(*bytes);
    ASSERT_EQ(rpc.publish_size(), 1);
    EXPECT_EQ(rpc.publish(0), std::string(3, 3));
    outbox.push("unwanted", body(2, 2), start + 9s, queue_bytes);
    EXPECT_FALSE(outbox.take({{"unwanted", start}}));
    EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, gossip_for_a_peer_that_does_not_read_is_dropped) {
    Outbox outbox;
    std::vector<MessageId> const ids(5000, MessageId(70, 'x'));
    for (int i = 0; i < 100; ++i) {
        outbox.ihave("a", ids);
        outbox.iwant(ids[0]);
        outbox.dont_want(ids[0]);
    }
    auto const size = taken(outbox).size();
    EXPECT_LE(size, gossip_bytes_max + 100);
    EXPECT_GE(size, gossip_bytes_max * 9 / 10);
    outbox.iwant("x"); // There is room again.
    EXPECT_FALSE(outbox.empty());
}

} // namespace
} // namespace exo::net::gossipsub
