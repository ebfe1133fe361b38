// SPDX-License-Identifier: Apache-2.0
//
// Packing into RPCs: bytes of js and rust (specs/libp2p.md 13), order, limits.
#include "gossip_fixture.hpp"

#include <functional>
#include <set>

namespace exo::net::gossipsub {
namespace {

constexpr auto later = start + 10s;

std::shared_ptr<Bytes const> body(std::size_t size, std::uint8_t fill = 7) {
    return std::make_shared<Bytes const>(Bytes(size, fill));
}

Bytes taken(Outbox& outbox) {
    auto const rpc = outbox.take({}, start);
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
        Outbox outbox{{}};
        EXPECT_TRUE(outbox.empty());
        row.put(outbox);
        EXPECT_FALSE(outbox.empty());
        EXPECT_EQ(to_hex(taken(outbox)), expected.at(row.key).get<std::string>()) << row.key;
        EXPECT_TRUE(outbox.empty());
        EXPECT_FALSE(outbox.take({}, start));
    }
}

TEST(Outbox, the_last_word_on_a_topic_counts) {
    Outbox outbox{{}};
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
    Outbox outbox{{}};
    outbox.push("m", body(100), later);
    outbox.graft("a");
    outbox.announce("a", true);
    auto const rpc = rpc_of(taken(outbox));
    EXPECT_EQ(rpc.subscriptions_size(), 1);
    EXPECT_EQ(rpc.control().graft_size(), 1);
    EXPECT_EQ(rpc.publish_size(), 1);
}

TEST(Outbox, small_messages_share_an_rpc_and_large_ones_travel_alone) {
    Outbox outbox{{}};
    outbox.push("small 1", body(100), later);
    outbox.push("small 2", body(100), later);
    outbox.push("large 1", body(100'000), later);
    outbox.push("large 2", body(100'000), later);
    outbox.push("small 3", body(100), later);
    outbox.graft("a");
    std::vector<int> counts;
    while (auto const bytes = outbox.take({}, start)) {
        counts.push_back(rpc_of(*bytes).publish_size());
    }
    EXPECT_EQ(counts, (std::vector<int>{2, 1, 1, 1}));
    EXPECT_EQ(outbox.bytes_count(), 0U);
}

TEST(Outbox, a_message_alone_makes_an_rpc_of_the_size_foretold) {
    for (std::size_t const size : {1U, 127U, 128U, 16'383U, 16'384U, 100'000U}) {
        Outbox outbox{{}};
        outbox.push("m", body(size), later);
        EXPECT_EQ(taken(outbox).size(), rpc_bytes_of(size));
    }
}

TEST(Outbox, a_full_queue_loses_the_oldest) {
    Outbox outbox({.queue_bytes_max = 3 * message_overhead_bytes + 100});
    outbox.push("a", body(60, 1), later);
    outbox.push("b", body(30, 2), later);
    EXPECT_EQ(outbox.take_dropped_count(), 0U);
    outbox.push("c", body(90, 3), later);
    EXPECT_EQ(outbox.take_dropped_count(), 1U);
    auto const rpc = rpc_of(taken(outbox));
    ASSERT_EQ(rpc.publish_size(), 2);
    EXPECT_EQ(rpc.publish(0), std::string(30, 2));
    EXPECT_EQ(rpc.publish(1), std::string(90, 3));
}

TEST(Outbox, messages_count_for_more_than_their_bytes) {
    Outbox outbox({.queue_bytes_max = 10 * message_overhead_bytes});
    for (int i = 0; i < 20; ++i) {
        outbox.push("empty", body(0), later);
    }
    EXPECT_EQ(outbox.take_dropped_count(), 10U);
}

TEST(Outbox, what_is_too_old_or_unwanted_is_not_sent) {
    Outbox outbox{{}};
    outbox.push("old", body(1, 1), start);
    outbox.push("unwanted", body(2, 2), later);
    outbox.push("fresh", body(3, 3), later);
    outbox.push("old as well", body(1, 1), start + 1s);
    auto const bytes = outbox.take({{"unwanted", start}}, start + 2s);
    ASSERT_TRUE(bytes);
    auto const rpc = rpc_of(*bytes);
    ASSERT_EQ(rpc.publish_size(), 1);
    EXPECT_EQ(rpc.publish(0), std::string(3, 3));
    EXPECT_EQ(outbox.take_dropped_count(), 2U);
    EXPECT_EQ(outbox.bytes_count(), 0U);
    outbox.push("unwanted", body(2, 2), later);
    EXPECT_FALSE(outbox.take({{"unwanted", start}}, start));
    EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, what_is_too_old_is_dropped_wherever_it_waits) {
    Outbox outbox{{}};
    outbox.push("fresh", body(10), later);
    outbox.push("old", body(10), start);
    outbox.drop_expired(start + 1s);
    EXPECT_EQ(outbox.take_dropped_count(), 1U);
    EXPECT_EQ(outbox.bytes_count(), 10 + message_overhead_bytes);
}

TEST(Outbox, gossip_for_a_peer_that_does_not_read_is_dropped) {
    Outbox outbox{{}};
    std::vector<MessageId> const ids(5000, MessageId(70, 'x'));
    for (int i = 0; i < 100; ++i) {
        outbox.ihave("a", ids);
        outbox.iwant(ids[0]);
        outbox.dont_want(ids[0]);
    }
    std::size_t count = 0;
    while (auto const bytes = outbox.take({}, start)) {
        auto const rpc = rpc_of(*bytes);
        for (auto const& ihave : rpc.control().ihave()) {
            count += static_cast<std::size_t>(ihave.ids_size());
        }
    }
    auto const most = OutboxLimits().gossip_bytes_max / (70 + id_overhead_bytes);
    EXPECT_LE(count, most);
    EXPECT_GE(count, most - 10);
    outbox.iwant("x"); // There is room again.
    EXPECT_FALSE(outbox.empty());
}

// rust takes no larger RPCs unless told so, and go none over 1 MiB.
TEST(Outbox, much_gossip_goes_out_in_pieces_of_64_kib_and_none_is_lost) {
    Outbox outbox{{}};
    std::set<std::string> said;
    for (int i = 0; i < 5000; ++i) {
        auto const id = std::string(60, 'x') + std::to_string(i);
        outbox.ihave(i % 2 == 0 ? "even" : "odd", {id});
        said.insert(id);
    }
    outbox.iwant("wanted");
    outbox.announce("even", true);
    outbox.graft("even");
    std::size_t rpcs = 0;
    while (auto const bytes = outbox.take({}, start)) {
        EXPECT_LE(bytes->size(), OutboxLimits().rpc_bytes_packed + 100);
        auto const rpc = rpc_of(*bytes);
        EXPECT_EQ(rpc.control().graft_size(), rpcs == 0 ? 1 : 0);
        EXPECT_EQ(rpc.control().iwant_size(), rpcs == 0 ? 1 : 0);
        for (auto const& ihave : rpc.control().ihave()) {
            for (auto const& id : ihave.ids()) {
                EXPECT_EQ(said.erase(id), 1U);
            }
        }
        ++rpcs;
    }
    EXPECT_EQ(rpcs, 6U);
    EXPECT_TRUE(said.empty());
}

} // namespace
} // namespace exo::net::gossipsub
