// SPDX-License-Identifier: Apache-2.0
#include "gossip_fixture.hpp"

namespace exo::net::gossipsub {
namespace {

SignedMessage message(std::string const& id, std::string const& topic, std::size_t bytes_count) {
    return {.id = id, .topic = topic, .encoded = std::make_shared<Bytes const>(bytes_count)};
}

TEST(SeenCache, an_id_is_new_once_until_its_time_is_over) {
    SeenCache seen(60s, 100);
    EXPECT_TRUE(seen.insert("a", start));
    EXPECT_FALSE(seen.insert("a", start + 50s)); // Does not prolong it.
    seen.expire(start + 59s);
    EXPECT_TRUE(seen.contains("a"));
    seen.expire(start + 60s);
    EXPECT_FALSE(seen.contains("a"));
    EXPECT_TRUE(seen.insert("a", start + 60s));
}

TEST(SeenCache, a_flood_forgets_the_oldest) {
    SeenCache seen(60s, 3);
    for (char const* id : {"a", "b", "c", "d"}) {
        EXPECT_TRUE(seen.insert(id, start));
    }
    EXPECT_EQ(seen.size(), 3U);
    EXPECT_FALSE(seen.contains("a"));
    EXPECT_TRUE(seen.contains("d"));
}

TEST(MessageCache, keeps_messages_for_5_heartbeats_and_tells_of_the_last_3) {
    MessageCache cache(5, 10'000);
    cache.put(message("a", "topic", 10));
    cache.put(message("other", "another topic", 10));
    for (int age = 0; age < 5; ++age) {
        EXPECT_TRUE(cache.find("a")) << age;
        EXPECT_EQ(cache.ids("topic", 3).size(), age < 3 ? 1U : 0U) << age;
        cache.shift();
    }
    EXPECT_FALSE(cache.find("a"));
    EXPECT_EQ(cache.bytes_count(), 0U);
}

TEST(MessageCache, beyond_its_bytes_the_oldest_go) {
    MessageCache cache(5, 2 * message_overhead_bytes + 100);
    cache.put(message("a", "topic", 60));
    cache.put(message("a", "topic", 60)); // The same.
    EXPECT_EQ(cache.bytes_count(), 60 + message_overhead_bytes);
    cache.put(message("b", "topic", 60));
    EXPECT_FALSE(cache.find("a"));
    EXPECT_TRUE(cache.find("b"));
    cache.put(message("too large", "topic", 1000));
    EXPECT_EQ(cache.bytes_count(), 0U);
}

} // namespace
} // namespace exo::net::gossipsub
