// SPDX-License-Identifier: Apache-2.0
#include "net/ping/ping.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace exo::net::ping {
namespace {

constexpr TimePoint start{};

std::vector<Action> actions_of(Initiator& initiator) {
    std::vector<Action> actions;
    while (auto action = initiator.next_action()) {
        actions.push_back(*action);
    }
    return actions;
}

Initiator initiator() {
    return Initiator(Random(1), start);
}

// Has an open stream and one question on it; returns the question.
Payload ask_first(Initiator& it, TimePoint now) {
    it.on_time(now, start);
    EXPECT_EQ(actions_of(it), std::vector<Action>{OpenStream{}});
    it.on_stream_opened(now);
    auto const actions = actions_of(it);
    EXPECT_EQ(actions.size(), 1U);
    return std::get<Send>(actions.at(0)).payload;
}

TEST(PingResponder, echoes_whole_payloads_in_any_cut) {
    Bytes sent(3 * payload_bytes);
    for (std::size_t i = 0; i < sent.size(); ++i) {
        sent[i] = static_cast<std::uint8_t>(i);
    }
    for (std::size_t size = 1; size <= sent.size(); ++size) {
        Responder responder;
        Bytes echoed;
        for (std::size_t at = 0; at < sent.size(); at += size) {
            auto const rest = BytesView(sent).subspan(at);
            append(echoed, responder.receive(rest.first(std::min(size, rest.size()))));
            EXPECT_EQ(echoed.size() % payload_bytes, 0U);
        }
        EXPECT_EQ(echoed, sent);
    }
}

TEST(PingResponder, a_part_of_a_payload_waits) {
    Responder responder;
    EXPECT_TRUE(responder.receive(Bytes(31)).empty());
    EXPECT_EQ(responder.receive(Bytes(1)).size(), 32U);
}

TEST(PingInitiator, asks_at_once_and_then_every_interval_on_the_same_stream) {
    auto it = initiator();
    EXPECT_EQ(it.deadline(), start);
    auto const first = ask_first(it, start);
    it.on_bytes(first, start + 4ms);
    EXPECT_EQ(actions_of(it), std::vector<Action>{Answered{4ms}});
    EXPECT_EQ(it.deadline(), start + 2500ms);
    it.on_time(start + 2499ms, start);
    EXPECT_TRUE(actions_of(it).empty());
    it.on_time(start + 2500ms, start);
    auto const actions = actions_of(it);
    ASSERT_EQ(actions.size(), 1U);
    EXPECT_NE(std::get<Send>(actions[0]).payload, first);
}

TEST(PingInitiator, an_answer_may_come_in_pieces) {
    auto it = initiator();
    auto const payload = ask_first(it, start);
    for (std::size_t i = 0; i < payload_bytes; ++i) {
        EXPECT_TRUE(actions_of(it).empty());
        it.on_bytes(BytesView(payload).subspan(i, 1), start + 1ms);
    }
    EXPECT_EQ(actions_of(it), std::vector<Action>{Answered{1ms}});
}

TEST(PingInitiator, one_miss_is_nothing_and_an_answer_forgives_it) {
    auto it = initiator();
    for (int round = 0; round < 5; ++round) {
        auto const now = it.deadline();
        (void)ask_first(it, now);
        it.on_stream_failed(now + 1ms); // js resets the stream after 10 s.
        EXPECT_TRUE(actions_of(it).empty());
        auto const later = it.deadline();
        EXPECT_EQ(later, now + 2500ms);
        auto const payload = ask_first(it, later);
        it.on_bytes(payload, later + 1ms);
        EXPECT_EQ(actions_of(it), std::vector<Action>{Answered{1ms}});
        it.on_stream_failed(later + 2ms); // Between two pings.
        EXPECT_TRUE(actions_of(it).empty());
    }
}

TEST(PingInitiator, a_question_that_waits_behind_other_bytes_is_asked_again_and_no_miss) {
    auto it = initiator();
    auto now = start;
    for (int round = 0; round < 10; ++round) {
        (void)ask_first(it, now);
        now += 2500ms;
        it.on_time(now, now - 1ms);
        EXPECT_EQ(actions_of(it), std::vector<Action>{ResetStream{}});
        EXPECT_EQ(it.deadline(), now);
    }
}

TEST(PingInitiator, three_misses_in_a_row_are_a_lost_peer_once) {
    auto it = initiator();
    (void)ask_first(it, start);
    it.on_time(start + 2500ms, start);
    EXPECT_EQ(actions_of(it), std::vector<Action>{ResetStream{}});
    it.on_time(start + 2500ms, start);
    EXPECT_EQ(actions_of(it), std::vector<Action>{OpenStream{}});
    it.on_stream_failed(start + 2600ms);
    (void)ask_first(it, start + 5000ms);
    it.on_stream_failed(start + 5001ms);
    auto const actions = actions_of(it);
    ASSERT_EQ(actions.size(), 1U);
    EXPECT_EQ(
        std::get<Lost>(actions[0]).reason, "the stream of a ping was closed, 3 times in a row"
    );
    EXPECT_EQ(it.deadline(), TimePoint::max());
    it.on_time(start + 1h, start);
    it.on_stream_failed(start + 1h);
    EXPECT_TRUE(actions_of(it).empty());
}

TEST(PingInitiator, other_bytes_are_a_miss) {
    auto it = initiator();
    (void)ask_first(it, start);
    it.on_bytes(Bytes(32), start + 1ms);
    EXPECT_EQ(actions_of(it), std::vector<Action>{ResetStream{}});
}

TEST(PingInitiator, a_peer_without_ping_is_left_alone) {
    auto it = initiator();
    it.on_time(start, start);
    it.on_refused();
    it.on_stream_failed(start);
    it.on_stream_opened(start);
    EXPECT_EQ(it.deadline(), TimePoint::max());
    EXPECT_EQ(actions_of(it), std::vector<Action>{OpenStream{}});
}

TEST(PingInitiator, bytes_nobody_asked_for_are_ignored) {
    auto it = initiator();
    it.on_bytes(Bytes(64), start);
    auto const payload = ask_first(it, start);
    Bytes twice(payload.begin(), payload.end());
    append(twice, payload); // go sends 64 bytes.
    it.on_bytes(twice, start + 1ms);
    EXPECT_EQ(actions_of(it), std::vector<Action>{Answered{1ms}});
}

} // namespace
} // namespace exo::net::ping
