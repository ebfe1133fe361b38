// SPDX-License-Identifier: Apache-2.0
//
// How a group over TCP forms among mistakes and strangers, and how it ends when a rank does.
#include "collective/tests/ranks.hpp"

#include <gtest/gtest.h>

#include <future>

namespace exo::collective {
namespace {

bool says(Error const& error, std::string_view words) {
    return error.text().find(words) != std::string::npos;
}

using Connected = Result<std::unique_ptr<TcpGroup>>;

std::future<Connected>
connect(Ports& ports, Membership membership, TcpOptions options = {}, Key key = test_key) {
    return std::async(std::launch::async, [&ports, membership, options, key] {
        return TcpGroup::connect(
            std::move(ports.listeners[membership.rank]), key, membership, ports.endpoints, options
        );
    });
}

// Rank 0 of a group whose rank 1 is made by hand.
struct Pair {
    explicit Pair(TcpOptions options = {}) {
        options.measure_links = false; // The rank by hand does not know how.
        Ports ports(2);
        auto connecting = connect(ports, test_member(0), options);
        auto const port = ports.endpoints[0].port;
        rank_1 = std::make_unique<HandmadeRank>(port, options.plain_on_one_machine);
        auto connected = connecting.get();
        EXPECT_TRUE(connected) << connected.error().text();
        rank_0 = std::move(*connected);
    }

    // A receive that is under way on rank 0.
    std::future<Result<void>> receive(std::size_t bytes) {
        return std::async(std::launch::async, [this, bytes] {
            Bytes into(bytes);
            return rank_0->receive(1, into);
        });
    }

    std::unique_ptr<TcpGroup> rank_0;
    std::unique_ptr<HandmadeRank> rank_1;
};

// ---- forming

TEST(TcpForming, another_program_is_a_conflict_that_names_both_at_once) {
    Ports ports(2);
    auto other = test_member(1);
    other.program_hash[0] = 1;
    other.program = "exo of yesterday";
    auto first = connect(ports, test_member(0));
    auto second = connect(ports, other);
    for (auto* connecting : {&first, &second}) {
        auto const result = connecting->get();
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code(), Errc::conflict) << result.error().text();
        EXPECT_TRUE(says(result.error(), "exo of yesterday")) << result.error().text();
        EXPECT_TRUE(says(result.error(), "exo of the tests"));
    }
}

TEST(TcpForming, another_generation_with_the_same_key_is_a_conflict) {
    Ports ports(2);
    auto other = test_member(1);
    other.generation = 2;
    auto first = connect(ports, test_member(0));
    auto second = connect(ports, other);
    EXPECT_EQ(first.get().error().code(), Errc::conflict);
    EXPECT_EQ(second.get().error().code(), Errc::conflict);
}

TEST(TcpForming, a_third_rank_learns_why_the_others_gave_up) {
    Ports ports(3);
    auto other = test_member(1);
    other.program_hash[0] = 1;
    other.program = "exo of yesterday";
    auto first = connect(ports, test_member(0));
    auto third = connect(ports, test_member(2), {.connect_limit = 2s});
    auto second = connect(ports, other);
    auto const result = third.get();
    ASSERT_FALSE(result);
    // It met the conflict itself, or a rank that gave up because of it, or came when both had gone.
    bool const names_it = says(result.error(), "exo of yesterday");
    bool const names_both = says(result.error(), "rank 0 was not reached") &&
                            says(result.error(), "rank 1 was not reached");
    bool const left_alone = says(result.error(), "closed the connection while the group formed");
    EXPECT_TRUE(names_it || names_both || left_alone) << result.error().text();
}

TEST(TcpForming, another_key_never_connects_and_both_say_why) {
    Ports ports(2);
    auto first = connect(ports, test_member(0), {.connect_limit = 400ms});
    auto second = connect(ports, test_member(1), {.connect_limit = 400ms}, Key{9});
    auto const at_0 = first.get();
    auto const at_1 = second.get();
    ASSERT_FALSE(at_0);
    ASSERT_FALSE(at_1);
    EXPECT_EQ(at_0.error().code(), Errc::timed_out);
    EXPECT_TRUE(says(at_0.error(), "key")) << at_0.error().text();
    EXPECT_TRUE(says(at_0.error(), "rank 1 did not connect")) << at_0.error().text();
    EXPECT_TRUE(says(at_1.error(), "key")) << at_1.error().text();
    EXPECT_TRUE(says(at_1.error(), "rank 0 was not reached")) << at_1.error().text();
}

TEST(TcpForming, a_missing_rank_is_named_and_so_is_who_waits_for_it) {
    Ports ports(3);
    auto first = connect(ports, test_member(0), {.connect_limit = 2s});
    auto second = connect(ports, test_member(1));
    auto const at_0 = first.get();
    ASSERT_FALSE(at_0);
    EXPECT_EQ(at_0.error().code(), Errc::timed_out);
    EXPECT_TRUE(says(at_0.error(), "rank 2 did not connect")) << at_0.error().text();
    EXPECT_TRUE(says(at_0.error(), "rank 1 is connected but still waits"));
    auto const at_1 = second.get();
    ASSERT_FALSE(at_1);
    EXPECT_TRUE(says(at_1.error(), "rank 0 at 127.0.0.1")) << at_1.error().text();
    EXPECT_TRUE(says(at_1.error(), "gave up: the group of 3 ranks did not form"));
}

TEST(TcpForming, a_rank_that_starts_late_is_found) {
    Ports ports(2);
    auto const endpoint = ports.endpoints[0];
    auto second = connect(ports, test_member(1));
    // The listener's queue takes the connection before rank 0 looks at it.
    auto first = connect(ports, test_member(0));
    EXPECT_TRUE(first.get());
    EXPECT_TRUE(second.get());
}

TEST(TcpForming, addresses_that_lead_nowhere_do_not_hold_up_the_good_one) {
    Ports ports(2);
    // Documentation addresses answer nowhere; the last two are no addresses at all.
    ports.endpoints[0].addresses = {
        "192.0.2.1", "198.51.100.1", "2001:db8::1", "nonsense", "", "127.0.0.1"
    };
    auto const start = std::chrono::steady_clock::now();
    auto first = connect(ports, test_member(0));
    auto second = connect(ports, test_member(1));
    EXPECT_TRUE(first.get());
    EXPECT_TRUE(second.get());
    EXPECT_LT(std::chrono::steady_clock::now() - start, 12s); // One that waited would take 15 s.
}

TEST(TcpForming, works_over_ipv6_where_there_is_some) {
    Ports ports(2);
    ports.endpoints[0].addresses = {"::1", "127.0.0.1"};
    auto first = connect(ports, test_member(0));
    auto second = connect(ports, test_member(1));
    EXPECT_TRUE(first.get());
    EXPECT_TRUE(second.get());
}

TEST(TcpForming, strangers_at_the_port_do_no_harm) {
    Ports ports(2);
    auto const address = Address::parse("127.0.0.1", ports.endpoints[0].port);
    std::vector<Socket> strangers;
    for (int i = 0; i < 60; ++i) { // More than are kept at a time.
        auto socket = start_connect(*address);
        ASSERT_TRUE(socket);
        pollfd polled{socket->descriptor(), POLLOUT, 0};
        ASSERT_EQ(poll(&polled, 1, 1000), 1);
        Bytes const garbage(static_cast<std::size_t>(i), static_cast<std::uint8_t>(i));
        (void)send_some(*socket, garbage);
        strangers.push_back(std::move(*socket));
    }
    auto first = connect(ports, test_member(0));
    auto second = connect(ports, test_member(1));
    EXPECT_TRUE(first.get());
    EXPECT_TRUE(second.get());
}

TEST(TcpForming, can_be_cancelled) {
    Ports ports(2);
    std::atomic<bool> cancelled = false;
    auto first = connect(ports, test_member(0), {.cancelled = &cancelled});
    cancelled = true;
    auto const result = first.get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::cancelled);
}

TEST(TcpForming, impossible_groups_are_refused_at_once) {
    auto const refused = [](std::uint32_t rank, std::vector<Endpoint> const& endpoints) {
        auto listener = Listener::open();
        auto const result = TcpGroup::connect(
            std::move(*listener), test_key, test_member(rank), endpoints, TcpOptions()
        );
        return !result && result.error().code() == Errc::invalid_argument;
    };
    Endpoint const good{.addresses = {"127.0.0.1"}, .port = 1};
    EXPECT_TRUE(refused(0, {good}));
    EXPECT_TRUE(refused(2, {good, good}));
    EXPECT_TRUE(refused(1, {Endpoint{}, good}));
    EXPECT_TRUE(refused(0, std::vector<Endpoint>(17, good)));
}

// ---- ending

TEST(TcpFailure, a_crash_ends_a_call_that_waits_and_is_told_apart_from_an_end) {
    Pair pair;
    auto receiving = pair.receive(10);
    pair.rank_1->crash();
    auto const result = receiving.get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::unavailable);
    EXPECT_TRUE(says(result.error(), "rank 1 at 127.0.0.1")) << result.error().text();
    EXPECT_TRUE(says(result.error(), "crashed")) << result.error().text();
    EXPECT_TRUE(pair.rank_0->health() == result);
    EXPECT_TRUE(pair.rank_0->barrier() == result);
}

TEST(TcpFailure, a_crash_in_the_middle_of_a_message_ends_the_call) {
    Pair pair;
    auto receiving = pair.receive(10);
    pair.rank_1->send(
        {.kind = RecordKind::message, .operation = Operation::send, .message_bytes = 10}, "half"
    );
    pair.rank_1->crash();
    EXPECT_EQ(receiving.get().error().code(), Errc::unavailable);
}

TEST(TcpFailure, an_orderly_end_fails_the_call_that_needs_the_rank) {
    Pair pair;
    auto receiving = pair.receive(10);
    pair.rank_1->send({.kind = RecordKind::ended}, "");
    auto const result = receiving.get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::cancelled);
    EXPECT_TRUE(says(result.error(), "ended in good order")) << result.error().text();
}

TEST(TcpFailure, what_a_rank_sent_before_its_end_is_still_received) {
    Pair pair;
    pair.rank_1->send_message(Operation::send, "the last");
    pair.rank_1->send({.kind = RecordKind::ended}, "");
    auto const message = pair.rank_0->receive_message(1);
    ASSERT_TRUE(message);
    EXPECT_EQ(as_text(*message), "the last");
    auto const next = pair.rank_0->receive_message(1);
    ASSERT_FALSE(next);
    EXPECT_EQ(next.error().code(), Errc::cancelled);
}

TEST(TcpFailure, a_rank_that_fails_tells_the_others_why) {
    Pair pair;
    auto receiving = pair.receive(10);
    pair.rank_1->send({.kind = RecordKind::failed}, "out of memory");
    auto const result = receiving.get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::unavailable);
    EXPECT_TRUE(says(result.error(), "failed: out of memory")) << result.error().text();
}

TEST(TcpFailure, a_silent_rank_is_lost_after_its_missing_beats) {
    Pair pair({.beat_interval = 20ms, .beats_missing_max = 6});
    auto const start = std::chrono::steady_clock::now();
    auto const result = pair.receive(10).get();
    auto const took = std::chrono::steady_clock::now() - start;
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::unavailable);
    EXPECT_TRUE(says(result.error(), "silent for ")) << result.error().text();
    EXPECT_GE(took, 100ms);
    EXPECT_LT(took, 20s);
}

// Long enough for a thread of a busy machine to get its turn, and shorter than the computing below.
TcpOptions const impatient{.beat_interval = 40ms, .beats_missing_max = 10};

TEST(TcpFailure, beats_keep_a_group_that_has_nothing_to_say) {
    run_ranks(2, impatient, [](Group& group) {
        std::this_thread::sleep_for(600ms); // Computes.
        ASSERT_TRUE(group.health());
        ASSERT_TRUE(group.barrier());
        if (group.rank() == 0) {
            std::this_thread::sleep_for(600ms); // The other waits in its receive meanwhile.
            ASSERT_TRUE(group.send(1, {}));
        } else {
            ASSERT_TRUE(group.receive_message(0));
        }
    });
}

TEST(TcpFailure, a_reader_that_is_behind_is_not_taken_for_dead_nor_takes_others) {
    run_ranks(2, impatient, [](Group& group) {
        Bytes bytes(4u << 20);
        for (int i = 0; i < 8; ++i) { // 32 MiB: more than the windows hold.
            if (group.rank() == 0) {
                ASSERT_TRUE(group.send(1, bytes));
            } else {
                if (i == 0) {
                    std::this_thread::sleep_for(600ms); // Computes.
                }
                auto const result = group.receive(0, bytes);
                ASSERT_TRUE(result) << result.error().text();
            }
        }
        ASSERT_TRUE(group.barrier());
    });
}

TEST(TcpFailure, an_error_from_outside_wakes_a_blocked_call_and_is_told) {
    Pair pair;
    auto receiving = pair.receive(10);
    pair.rank_0->fail(Error(Errc::cancelled, "the parent is gone"));
    auto const result = receiving.get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(), "the parent is gone");
    EXPECT_EQ(pair.rank_1->last_words(), "5 the parent is gone");
}

TEST(TcpFailure, an_orderly_end_is_told) {
    Pair pair;
    auto words = std::async(std::launch::async, [&] { return pair.rank_1->last_words(); });
    pair.rank_0.reset();
    EXPECT_EQ(words.get(), "4 ");
}

TEST(TcpFailure, the_end_of_a_rank_that_nobody_needs_is_an_error_after_a_while) {
    Pair pair({.beat_interval = 20ms});
    pair.rank_1->send({.kind = RecordKind::ended}, "");
    while (pair.rank_0->health()) {
        std::this_thread::yield();
    }
    EXPECT_EQ(pair.rank_0->health().error().code(), Errc::cancelled);
}

// ---- the stream, cut anywhere

// A message in records of several sizes, with beats between them.
void append_records(Bytes& stream, HandmadeRank& rank, BytesView message) {
    BytesView rest = message;
    for (std::size_t part = 1; !rest.empty(); part = part * 5 % 61'001) {
        RecordHeader const header{
            .kind = rest.size() == message.size() ? RecordKind::message : RecordKind::more,
            .operation = Operation::send,
            .message_bytes = static_cast<std::uint32_t>(message.size()),
        };
        auto const payload = rest.first(std::min(part, rest.size()));
        append(stream, rank.sealed(header, payload));
        append(stream, rank.sealed({.kind = RecordKind::beat}, {}));
        rest = rest.subspan(payload.size());
    }
}

void expect_two_messages(bool plain, std::size_t piece) {
    std::size_t const size = piece < 100 ? 50'000 : 500'000; // More than is read at once.
    Pair pair({.plain_on_one_machine = plain});
    Bytes first(size);
    for (std::size_t i = 0; i < size; ++i) {
        first[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
    }
    Bytes const second(first.rbegin(), first.rend());
    Bytes stream;
    append_records(stream, *pair.rank_1, first);
    append_records(stream, *pair.rank_1, second);
    auto writing = std::async(std::launch::async, [&] {
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            auto const bytes = BytesView(stream).subspan(at, std::min(piece, stream.size() - at));
            pair.rank_1->write(Bytes(bytes.begin(), bytes.end()));
        }
    });
    Bytes received(size);
    auto const result = pair.rank_0->receive(1, received);
    auto const message = pair.rank_0->receive_message(1);
    writing.get();
    ASSERT_TRUE(result) << result.error().text();
    ASSERT_TRUE(message) << message.error().text();
    EXPECT_EQ(received, first);
    EXPECT_EQ(*message, second);
}

TEST(TcpStream, messages_arrive_however_their_bytes_are_cut) {
    for (bool const plain : {false, true}) {
        for (std::size_t const piece : {1u, 7u, 11u, 4096u, 4109u, 65'537u, 1'000'000u}) {
            SCOPED_TRACE(fmt::format("{} in pieces of {}", plain ? "plain" : "sealed", piece));
            expect_two_messages(plain, piece);
        }
    }
}

// ---- a rank that is wrong

TEST(TcpFailure, a_message_of_another_size_or_operation_means_another_program) {
    {
        Pair pair;
        pair.rank_1->send_message(Operation::send, "four");
        auto const result = pair.receive(10).get();
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code(), Errc::protocol);
        EXPECT_TRUE(says(result.error(), "4 bytes where 10")) << result.error().text();
    }
    Pair pair;
    pair.rank_1->send_message(Operation::broadcast, "0123456789");
    auto const result = pair.receive(10).get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::protocol);
    EXPECT_TRUE(says(result.error(), "different programs")) << result.error().text();
}

TEST(TcpFailure, records_that_break_the_protocol_end_the_group) {
    RecordHeader const message{
        .kind = RecordKind::message, .operation = Operation::send, .message_bytes = 8
    };
    RecordHeader const more{.kind = RecordKind::more, .operation = Operation::send};

    struct Row {
        char const* name;
        std::function<void(HandmadeRank&)> act;
    };

    for (auto const& row : std::vector<Row>{
             {"more of nothing", [&](HandmadeRank& rank) { rank.send(more, "x"); }},
             {"a message within a message",
              [&](HandmadeRank& rank) {
                  rank.send(message, "half");
                  rank.send(message, "half");
              }},
             {"more than it promised", [&](HandmadeRank& rank) { rank.send(message, "123456789"); }
             },
             {"a handshake again",
              [&](HandmadeRank& rank) { rank.send({.kind = RecordKind::chosen}, ""); }},
             {"garbage", [&](HandmadeRank& rank) { rank.write(Bytes(100, 0xff)); }},
             {"a record that is not sealed",
              [&](HandmadeRank& rank) {
                  rank.write(*from_hex("010001000000000800000008"
                                       "0000000000000000"));
              }},
             {"a forged record",
              [&](HandmadeRank& rank) {
                  rank.write(*from_hex("030100000000000000000000"
                                       "00000000000000000000000000000000"));
              }},
         }) {
        Pair pair;
        auto receiving = pair.receive(8);
        row.act(*pair.rank_1);
        auto const result = receiving.get();
        ASSERT_FALSE(result) << row.name;
        EXPECT_EQ(result.error().code(), Errc::protocol) << row.name << result.error().text();
    }
}

} // namespace
} // namespace exo::collective
