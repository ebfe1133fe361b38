// SPDX-License-Identifier: Apache-2.0
//
// The dial book on a virtual clock.
#include "net/host/dial_book.hpp"
#include "net/wire/tests/words.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace exo::net {
namespace {

using Origin = DialBook::Origin;

constexpr TimePoint start{};

Multiaddr numbered(int number) {
    return address("/ip4/10.0.0.1/tcp/" + std::to_string(number));
}

PeerId const self = numbered_peer(1);
PeerId const friend_id = numbered_peer(2);
auto const lan = address("/ip4/192.168.1.5/tcp/4001");
auto const lan6 = address("/ip6/fd00::5/tcp/4001");
auto const routed = address("/ip4/8.8.8.8/tcp/4001");
auto const vpn = address("/ip4/10.8.0.5/tcp/4001");
auto const docker = address("/ip4/172.17.0.5/tcp/4001");
auto const loopback = address("/ip4/127.0.0.1/tcp/4001");

class DialBookTest : public testing::Test {
protected:
    using Addresses = std::vector<Multiaddr>;

    void add(Multiaddr const& one, Origin origin, Reach reach = Reach::lan, TimePoint now = start) {
        book_.add(one, {.origin = origin, .reach = reach, .of_this_machine = true}, now);
    }

    // The addresses of the friend, of this kind of way.
    void hear(Multiaddr const& one, Reach reach = Reach::lan, TimePoint now = start) {
        add(one.with_peer(friend_id), Origin::heard, reach, now);
    }

    Addresses due(TimePoint now) {
        Addresses addresses;
        for (auto const& dial : book_.take_due(now)) {
            addresses.push_back(dial.address);
        }
        return addresses;
    }

    // Turns the clock to `end`; each dial fails after `takes`. When each began.
    std::map<Multiaddr, std::vector<Duration>>
    run(TimePoint now, TimePoint end, std::map<Multiaddr, Duration> const& takes) {
        std::map<Multiaddr, std::vector<Duration>> begun;
        std::multimap<TimePoint, Multiaddr> running;
        while (now < end) {
            for (auto const& one : due(now)) {
                begun[one].push_back(now - start);
                auto const found = takes.find(one);
                running.emplace(now + (found == takes.end() ? 4s : found->second), one);
            }
            auto next = book_.deadline();
            if (!running.empty()) {
                next = std::min(next, running.begin()->first);
            }
            EXPECT_GE(next, now);
            now = next;
            while (!running.empty() && running.begin()->first <= now) {
                book_.failed(running.begin()->second, "no answer", now);
                running.erase(running.begin());
            }
        }
        return begun;
    }

    DialBook book_{self, Random(7), DialBook::Limits{}};
};

TEST_F(DialBookTest, an_address_is_dialled_at_once_and_again_after_pauses_that_grow_to_5_s) {
    add(lan, Origin::given);
    EXPECT_EQ(book_.deadline(), start);
    auto const begun = run(start, start + 10min, {{lan, 0s}}).at(lan);
    std::vector<Duration> pauses;
    for (std::size_t i = 1; i < begun.size(); ++i) {
        pauses.push_back(begun[i] - begun[i - 1]);
    }
    ASSERT_GT(pauses.size(), 100U); // For ever, and often.
    auto expected = Duration(500ms);
    for (auto const pause : pauses) {
        EXPECT_GE(pause, expected * 8 / 10);
        EXPECT_LE(pause, expected * 12 / 10);
        expected = std::min<Duration>(2 * expected, 5s);
    }
    EXPECT_NE(pauses[50], pauses[51]); // Jitter: two nodes do not stay in step.
}

TEST_F(DialBookTest, B086_a_dead_first_address_delays_the_others_by_250_ms) {
    for (auto const& one : {lan, lan6, numbered(1), numbered(2)}) {
        hear(one);
    }
    auto const first = due(start);
    ASSERT_EQ(first.size(), 1U); // IPv4: where one of the two is broken it is mostly the other.
    EXPECT_EQ(first[0].tcp_target()->host_kind, AddrPart::ip4);
    EXPECT_EQ(book_.deadline(), start + 250ms);
    EXPECT_TRUE(due(start + 249ms).empty());
    EXPECT_EQ(due(start + 250ms), Addresses{lan6});
    EXPECT_EQ(due(start + 500ms).size(), 1U);
    EXPECT_EQ(due(start + 750ms).size(), 1U);
    EXPECT_EQ(book_.deadline(), TimePoint::max());
}

TEST_F(DialBookTest, B086_ipv4_and_ipv6_take_turns) {
    auto const six = [](int number) {
        return address("/ip6/fd00::5/tcp/" + std::to_string(number));
    };
    for (int i = 1; i <= 3; ++i) {
        hear(numbered(i));
        hear(six(i));
    }
    std::vector<bool> families;
    for (int i = 0; i < 6; ++i) {
        auto const now = due(start + i * 250ms);
        ASSERT_EQ(now.size(), 1U);
        families.push_back(now[0].tcp_target()->host_kind == AddrPart::ip4);
    }
    EXPECT_EQ(families, (std::vector<bool>{true, false, true, false, true, false}));
}

TEST_F(DialBookTest, B086_bootstrap_peers_do_not_wait_for_each_other) {
    for (int i = 1; i <= 20; ++i) {
        add(numbered(i), Origin::given);
    }
    EXPECT_EQ(due(start).size(), 20U);
}

TEST_F(DialBookTest, one_that_fails_at_once_lets_the_next_one_go_at_once) {
    hear(lan);
    hear(routed, Reach::routed);
    EXPECT_EQ(due(start), Addresses{lan});
    book_.failed(lan, "refused", start + 1ms);
    EXPECT_EQ(due(start + 1ms), Addresses{routed});
}

TEST_F(DialBookTest, B074_an_overlay_waits_for_a_lan_address_that_may_be_heard_yet) {
    hear(vpn, Reach::vpn);
    EXPECT_TRUE(due(start + 999ms).empty());
    hear(lan, Reach::lan, start + 999ms);
    EXPECT_EQ(due(start + 999ms), Addresses{lan});
}

TEST_F(DialBookTest, B074_an_overlay_that_is_all_there_is_waits_a_second_and_not_again) {
    hear(vpn, Reach::vpn);
    EXPECT_EQ(due(start + 1s), Addresses{vpn});
    book_.succeeded(vpn, friend_id, start + 1s);
    book_.connected(friend_id, Reach::vpn, start + 1s);
    EXPECT_EQ(book_.deadline(), TimePoint::max());
    book_.lost(friend_id, start + 1h, Duration(0));
    EXPECT_EQ(due(start + 1h), Addresses{vpn});
}

TEST_F(DialBookTest, B074_who_is_connected_by_an_overlay_is_dialled_at_better_addresses) {
    hear(vpn, Reach::vpn);
    (void)due(start + 1s);
    book_.succeeded(vpn, friend_id, start + 1s);
    book_.connected(friend_id, Reach::vpn, start + 1s);
    hear(lan, Reach::lan, start + 2s);
    auto const begun = run(start + 2s, start + 1h, {{lan, 0s}});
    auto const& tries = begun.at(lan);
    EXPECT_FALSE(begun.contains(vpn));
    EXPECT_GE(std::ranges::count_if(tries, [](Duration at) { return at < 10s; }), 3);
    EXPECT_GE(tries.back() - tries[tries.size() - 2], 48s); // Ever more seldom.
    hear(lan, Reach::lan, start + 2h);
    ASSERT_EQ(due(start + 2h), Addresses{lan});
    EXPECT_TRUE(book_.is_wanted(lan));
    book_.connected(friend_id, Reach::lan, start + 2h); // The peer was faster.
    EXPECT_FALSE(book_.is_wanted(lan));
    book_.given_up(lan);
    EXPECT_EQ(book_.deadline(), TimePoint::max());
}

TEST_F(DialBookTest, B074_a_lan_address_that_answers_wins_over_all_others) {
    hear(loopback, Reach::loopback);
    hear(docker, Reach::container);
    hear(vpn, Reach::vpn);
    hear(routed, Reach::routed);
    hear(lan);
    EXPECT_EQ(due(start), Addresses{lan});
    EXPECT_TRUE(due(start + 700ms).empty()); // It has that long to answer.
    EXPECT_EQ(due(start + 750ms), Addresses{routed});
    EXPECT_EQ(due(start + 1500ms), Addresses{vpn});
    EXPECT_EQ(due(start + 2250ms), Addresses{docker});
    book_.succeeded(docker, friend_id, start + 2300ms);
    book_.connected(friend_id, Reach::container, start + 2300ms);
    for (auto const& one : {lan, routed, vpn}) {
        book_.failed(one, "no answer", start + 4s);
    }
    auto const later = run(start + 4s, start + 1min, {});
    EXPECT_FALSE(later.contains(loopback)); // Not needed any more; the better ones are hoped for.
    EXPECT_FALSE(later.contains(docker));
    EXPECT_TRUE(later.contains(lan));
}

TEST_F(DialBookTest, B074_each_round_begins_with_the_best_again) {
    hear(lan);
    hear(docker, Reach::container);
    auto const begun = run(start, start + 1min, {{lan, 1s}, {docker, 0s}});
    for (std::size_t i = 0; i < begun.at(docker).size(); ++i) {
        EXPECT_GE(begun.at(docker)[i], begun.at(lan)[i] + 750ms);
    }
}

TEST_F(DialBookTest, B076_a_wrong_peer_discards_only_that_address) {
    hear(lan);
    hear(routed, Reach::routed);
    auto const dials = book_.take_due(start);
    ASSERT_EQ(dials.size(), 1U);
    EXPECT_EQ(dials[0].expected, friend_id);
    book_.was_someone_else(lan, "another answered", start);
    EXPECT_EQ(book_.size(), 1U);
    EXPECT_EQ(due(start), Addresses{routed});
}

TEST_F(DialBookTest, B076_loopback_of_another_machine_is_never_dialled) {
    for (auto const* host :
         {"/ip4/127.0.0.1",
          "/ip4/127.9.9.9",
          "/ip6/::1",
          "/ip4/0.0.0.0",
          "/ip6/::",
          "/ip6/::ffff:127.0.0.1",
          "/ip4/224.0.0.251"}) {
        auto const one = address(std::string(host) + "/tcp/1").with_peer(friend_id);
        book_.add(one, {.origin = Origin::heard}, start);
        book_.add(one, {.origin = Origin::told}, start);
    }
    EXPECT_EQ(book_.size(), 0U);
    book_.add(loopback, {.origin = Origin::given}, start); // Who writes it means this machine.
    EXPECT_EQ(book_.size(), 1U);
}

TEST_F(DialBookTest, B076_when_the_last_one_of_a_round_goes_the_others_are_tried_again) {
    hear(lan);
    hear(routed, Reach::routed);
    (void)due(start);
    book_.failed(lan, "refused", start);
    EXPECT_EQ(due(start), Addresses{routed});
    book_.was_someone_else(routed, "another answered", start);
    EXPECT_EQ(due(book_.deadline()), Addresses{lan});
}

TEST_F(DialBookTest, of_what_was_given_only_what_is_named_stays) {
    hear(routed, Reach::routed);
    add(lan, Origin::given);
    add(numbered(1), Origin::given);
    add(numbered(2), Origin::given);
    EXPECT_EQ(due(start).size(), 4U);
    book_.failed(lan, "refused", start);
    book_.failed(numbered(1), "refused", start);
    book_.keep_given({lan.with_peer(friend_id)}, start);
    // The one that is being dialled goes later, as any that was heard.
    EXPECT_EQ(book_.size(), 3U);
    book_.failed(numbered(2), "refused", start + 1h);
    book_.failed(routed, "refused", start + 1h);
    book_.keep_given({}, start + 1h);
    EXPECT_EQ(book_.size(), 2U);
    EXPECT_FALSE(std::ranges::any_of(book_.facts(), &DialFacts::given));
}

TEST_F(DialBookTest, starting_over_forgets_failures_and_tries_all_at_once) {
    hear(lan);
    add(numbered(1), Origin::given);
    (void)run(start, start + 1h, {{lan, 0s}, {numbered(1), 0s}});
    auto const later = start + 1h;
    book_.start_over(later);
    EXPECT_EQ(due(later).size(), 2U);
    EXPECT_EQ(book_.facts().at(0).failures, 0U);
    book_.failed(lan, "refused", later);
    EXPECT_LE(book_.deadline(), later + 600ms); // The first pause, not the longest.
}

TEST_F(DialBookTest, one_that_is_being_dialled_when_all_starts_over_is_dialled_again_at_once) {
    hear(lan);
    EXPECT_EQ(due(start), Addresses{lan});
    book_.start_over(start + 5s);
    EXPECT_TRUE(due(start + 5s).empty());
    book_.given_up(lan);
    EXPECT_EQ(due(start + 5s), Addresses{lan});
}

TEST_F(DialBookTest, we_are_never_dialled_twice) {
    add(lan.with_peer(self), Origin::given);
    EXPECT_EQ(book_.size(), 0U);
    add(lan, Origin::given);
    (void)due(start);
    book_.was_ourselves(lan, start);
    add(lan, Origin::heard);
    EXPECT_TRUE(due(start + 1h).empty());
    EXPECT_EQ(book_.deadline(), TimePoint::max());
    EXPECT_EQ(book_.facts().at(0).error, "this node itself");
    book_.rank([](Multiaddr const&) { return Reach::lan; }, start + 1h); // It may be another now.
    EXPECT_EQ(due(start + 1h + 1s).size(), 1U);
}

TEST_F(DialBookTest, what_cannot_be_dialled_is_left_out) {
    add(Multiaddr(), Origin::given);
    add(address("/ip4/1.2.3.4"), Origin::given);
    add(address("/ip4/1.2.3.4/tcp/0"), Origin::given);
    EXPECT_EQ(book_.size(), 0U);
}

TEST_F(DialBookTest, a_connected_peer_is_left_alone_until_it_is_lost) {
    add(lan, Origin::given);
    hear(vpn, Reach::vpn);
    EXPECT_EQ(due(start + 1s), (Addresses{lan, vpn}));
    book_.succeeded(lan, friend_id, start); // The address did not say who lives there.
    book_.connected(friend_id, Reach::lan, start);
    book_.given_up(vpn);
    EXPECT_TRUE(due(start + 1h).empty());
    EXPECT_EQ(book_.deadline(), TimePoint::max()); // No busy loop.
    book_.lost(friend_id, start + 1h, Duration(0));
    EXPECT_EQ(due(start + 1h), Addresses{lan});
}

TEST_F(DialBookTest, B084_a_peer_that_came_to_us_is_not_dialled) {
    book_.connected(friend_id, Reach::lan, start);
    hear(lan);
    EXPECT_TRUE(due(start + 1h).empty());
    book_.lost(friend_id, start + 1h, Duration(0));
    EXPECT_EQ(due(start + 1h), Addresses{lan});
    book_.connected(
        numbered_peer(9), Reach::lan, start
    ); // Without any address it leaves nothing behind.
    book_.lost(numbered_peer(9), start + 1h, Duration(0));
    EXPECT_EQ(book_.size(), 1U);
}

TEST_F(DialBookTest, a_peer_that_was_given_up_gets_a_pause) {
    hear(lan);
    (void)due(start);
    book_.succeeded(lan, friend_id, start);
    book_.connected(friend_id, Reach::lan, start);
    book_.lost(friend_id, start + 1h, 5s);
    EXPECT_EQ(book_.deadline(), start + 1h + 5s);
}

TEST_F(DialBookTest, connections_that_do_not_last_are_no_reason_to_hurry) {
    hear(lan);
    auto now = start;
    std::vector<Duration> pauses;
    for (int i = 0; i < 6; ++i) {
        ASSERT_EQ(due(now).size(), 1U);
        book_.succeeded(lan, friend_id, now);
        book_.connected(friend_id, Reach::lan, now);
        book_.lost(friend_id, now + 1ms, Duration(0));
        pauses.push_back(book_.deadline() - now);
        now = book_.deadline();
    }
    EXPECT_LT(pauses.front(), 700ms);
    EXPECT_GT(pauses.back(), 3s);
}

TEST_F(DialBookTest, B089_a_bootstrap_peer_may_return_with_another_id) {
    add(lan.with_peer(friend_id), Origin::given);
    auto const dials = book_.take_due(start);
    EXPECT_EQ(dials.at(0), (DialBook::Dial{lan, std::nullopt})); // Whoever answers is welcome.
    book_.succeeded(lan, numbered_peer(3), start);
    book_.connected(numbered_peer(3), Reach::lan, start);
    EXPECT_TRUE(due(start + 1h).empty());
    book_.lost(numbered_peer(3), start + 1h, Duration(0));
    EXPECT_EQ(due(start + 1h), Addresses{lan});
    book_.succeeded(lan, numbered_peer(4), start + 1h);
    EXPECT_EQ(book_.facts().at(0).peer, numbered_peer(4));
}

TEST_F(DialBookTest, B089_a_heard_address_goes_to_the_new_id_that_is_heard_there) {
    hear(lan);
    (void)due(start);
    book_.failed(lan, "refused", start);
    add(lan.with_peer(numbered_peer(3)), Origin::heard, Reach::lan, start + 1s);
    EXPECT_EQ(book_.size(), 1U);
    EXPECT_EQ(book_.take_due(start + 1s), (std::vector{DialBook::Dial{lan, numbered_peer(3)}}));
}

TEST_F(DialBookTest, what_is_heard_again_is_tried_again_at_once) {
    hear(lan);
    auto const begun = run(start, start + 1min, {{lan, 0s}});
    ASSERT_GT(begun.at(lan).size(), 10U);
    hear(lan, Reach::lan, start + 2min);
    EXPECT_EQ(due(start + 2min), Addresses{lan});
}

TEST_F(DialBookTest, a_split_network_is_joined_again_within_10_s_of_its_end) {
    hear(lan);
    auto const begun = run(start, start + 10min, {}).at(lan); // Each takes 4 s to fail.
    for (std::size_t i = 1; i < begun.size(); ++i) {
        EXPECT_LE(begun[i] - begun[i - 1], 10s);
    }
}

TEST_F(DialBookTest, who_does_not_answer_for_long_is_tried_once_a_minute_and_then_forgotten) {
    hear(lan);
    auto const begun = run(start, start + 25h, {{lan, 0s}}).at(lan);
    EXPECT_GE(begun.back(), 24h - 2min);
    EXPECT_LE(begun.back(), 24h + 2min);
    EXPECT_GE(begun.back() - begun[begun.size() - 2], 48s);
    EXPECT_EQ(book_.size(), 0U);
}

TEST_F(DialBookTest, what_was_told_changes_nothing_of_what_was_heard) {
    hear(lan);
    book_.add(
        lan.with_peer(numbered_peer(3)), {.origin = Origin::told, .teller = numbered_peer(9)}, start
    );
    EXPECT_EQ(book_.take_due(start), (std::vector{DialBook::Dial{lan, friend_id}}));
    book_.failed(lan, "refused", start);
    auto const next = book_.deadline();
    book_.add(
        lan.with_peer(friend_id), {.origin = Origin::told, .teller = numbered_peer(9)}, start
    );
    EXPECT_EQ(book_.deadline(), next); // Nor does it hurry.
    book_.add(
        vpn.with_peer(friend_id), {.origin = Origin::told, .teller = numbered_peer(9)}, start
    );
    EXPECT_EQ(book_.deadline(), next);
}

TEST_F(DialBookTest, what_was_told_and_is_dead_is_soon_forgotten) {
    book_.add(
        lan.with_peer(friend_id), {.origin = Origin::told, .teller = numbered_peer(9)}, start
    );
    auto const begun = run(start, start + 1h, {{lan, 0s}}).at(lan);
    EXPECT_LT(begun.size(), 25U);
    EXPECT_LE(begun.back(), 12min);
    EXPECT_EQ(book_.size(), 0U);
}

TEST_F(DialBookTest, what_was_told_and_is_true_counts_as_heard) {
    book_.add(
        lan.with_peer(friend_id), {.origin = Origin::told, .teller = numbered_peer(9)}, start
    );
    EXPECT_TRUE(book_.known(friend_id).empty()); // Hearsay is not passed on.
    (void)due(start);
    book_.succeeded(lan, friend_id, start);
    EXPECT_EQ(book_.known(friend_id), Addresses{lan});
}

TEST_F(DialBookTest, others_are_told_what_works_best_first_and_never_loopback) {
    hear(loopback, Reach::loopback);
    hear(docker, Reach::container);
    hear(vpn, Reach::vpn);
    hear(lan);
    add(address("/dns/example/tcp/1").with_peer(friend_id), Origin::given);
    EXPECT_EQ(book_.known(friend_id), (Addresses{lan, vpn, docker}));
    (void)due(start + 1h);
    EXPECT_TRUE(book_.known(numbered_peer(9)).empty());
}

TEST_F(DialBookTest, only_so_many_are_dialled_at_once_and_who_waited_longest_comes_first) {
    for (int i = 1; i <= 40; ++i) {
        add(numbered(i), Origin::given, Reach::lan, start + Duration(i));
    }
    auto const first = due(start + 1s);
    EXPECT_EQ(first.size(), 32U);
    EXPECT_TRUE(due(start + 1s).empty());
    EXPECT_EQ(book_.deadline(), TimePoint::max()); // Until one has ended.
    book_.failed(first[0], "refused", start + 1s);
    EXPECT_EQ(due(start + 1s), Addresses{numbered(33)});
}

TEST_F(DialBookTest, one_peer_has_at_most_16_addresses) {
    for (int i = 1; i <= 40; ++i) {
        hear(numbered(i));
    }
    EXPECT_EQ(book_.size(), 16U);
    add(lan.with_peer(friend_id), Origin::given); // A person's word has room.
    EXPECT_EQ(book_.size(), 17U);
}

TEST_F(DialBookTest, a_liar_cannot_fill_the_book) {
    auto const tell = [&](std::uint8_t teller, int number) {
        auto const whose = numbered_peer(static_cast<std::uint8_t>(100 + number % 100));
        book_.add(
            numbered(number).with_peer(whose),
            {.origin = Origin::told, .teller = numbered_peer(teller)},
            start
        );
    };
    for (int i = 1; i <= 1000; ++i) {
        tell(9, i);
    }
    EXPECT_EQ(book_.size(), 128U);
    for (int i = 1001; i <= 9000; ++i) {
        tell(static_cast<std::uint8_t>(10 + i / 1000), i);
    }
    EXPECT_EQ(book_.size(), 512U);
}

TEST(DialBook, a_full_one_drops_hearsay_and_what_fails_most_and_nothing_else) {
    DialBook book(self, Random(1), DialBook::Limits{.entries_max = 3});
    DialBook::Found const heard;
    DialBook::Found const told{.origin = Origin::told, .teller = numbered_peer(9)};
    DialBook::Found const given{.origin = Origin::given};
    book.add(numbered(1), given, start);
    book.add(numbered(2).with_peer(friend_id), heard, start);
    book.add(numbered(3).with_peer(numbered_peer(3)), told, start);
    book.add(
        numbered(4).with_peer(numbered_peer(4)), heard, start
    ); // In the place of what was told.
    book.add(
        numbered(5).with_peer(numbered_peer(5)), heard, start
    ); // No room: nothing has failed yet.
    book.add(numbered(5).with_peer(numbered_peer(5)), told, start);
    EXPECT_EQ(
        book.take_due(start),
        (std::vector{
            DialBook::Dial{numbered(2), friend_id},
            DialBook::Dial{numbered(4), numbered_peer(4)},
            DialBook::Dial{numbered(1), std::nullopt},
        })
    );
    book.failed(numbered(1), "refused", start);
    book.failed(numbered(2), "refused", start);
    book.add(
        numbered(5).with_peer(numbered_peer(5)), heard, start
    ); // In the place of the one that failed.
    EXPECT_TRUE(std::ranges::any_of(book.facts(), &DialFacts::given));
    EXPECT_EQ(book.take_due(start), (std::vector{DialBook::Dial{numbered(5), numbered_peer(5)}}));
}

TEST(DialBook, a_change_of_interfaces_ranks_anew_and_tries_all_soon) {
    DialBook book(self, Random(1), DialBook::Limits{});
    book.add(lan.with_peer(friend_id), {.reach = Reach::routed}, start);
    book.add(vpn.with_peer(friend_id), {.reach = Reach::lan}, start);
    for (auto now = start; now < start + 1min; now = book.deadline()) {
        for (auto const& dial : book.take_due(now)) {
            book.failed(dial.address, "no route", now);
        }
    }
    book.rank(
        [](Multiaddr const& one) { return one == lan ? Reach::lan : Reach::vpn; }, start + 1h
    );
    EXPECT_EQ(book.take_due(start + 1h + 500ms).at(0).address, lan);
}

// Whatever happens in whatever order: each peer that is not connected is tried again and again.
TEST(DialBook, no_address_is_ever_forgotten_in_a_corner) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        DialBook book(self, Random(seed), DialBook::Limits{.entries_max = 20, .per_peer_max = 4});
        book.add(numbered(99), {.origin = Origin::given}, start);
        std::vector<Multiaddr> running;
        std::set<PeerId> connected;
        auto now = start;
        auto const anyone = [&] {
            return numbered_peer(static_cast<std::uint8_t>(2 + random.below(4)));
        };
        for (int step = 0; step < 300; ++step) {
            now += Duration(random.below(2'000'000'000));
            for (auto const& dial : book.take_due(now)) {
                running.push_back(dial.address);
            }
            if (!running.empty() && random.chance(2, 3)) {
                auto const one = running.begin() + static_cast<long>(random.below(running.size()));
                switch (random.below(4)) {
                case 0:
                    book.was_someone_else(*one, "another", now);
                    break;
                case 1: {
                    auto const who = anyone();
                    book.succeeded(*one, who, now);
                    connected.insert(who);
                    book.connected(who, random.chance(1, 2) ? Reach::lan : Reach::vpn, now);
                    break;
                }
                case 2:
                    book.given_up(*one);
                    break;
                default:
                    book.failed(*one, "dead", now);
                }
                running.erase(one);
            }
            if (!connected.empty() && random.chance(1, 3)) {
                book.lost(*connected.begin(), now, Duration(0));
                connected.erase(connected.begin());
            }
            auto const found = numbered(static_cast<int>(1 + random.below(40))).with_peer(anyone());
            auto const origin = random.chance(1, 2) ? Origin::heard : Origin::told;
            auto const reach = random.chance(1, 2) ? Reach::lan : Reach::vpn;
            book.add(found, {.origin = origin, .reach = reach, .teller = numbered_peer(9)}, now);
            ASSERT_LE(book.size(), 20U);
        }
        for (auto const& one : running) {
            book.failed(one, "dead", now);
        }
        for (auto const& who : connected) {
            book.lost(who, now, Duration(0));
        }
        std::set<Multiaddr> tried;
        auto const end = now + 3min;
        while (now < end) {
            for (auto const& dial : book.take_due(now)) {
                tried.insert(dial.address);
                book.failed(dial.address, "dead", now);
            }
            now = std::max(now, book.deadline());
        }
        for (auto const& fact : book.facts()) {
            EXPECT_TRUE(tried.contains(fact.address)) << "seed " << seed;
        }
    }
}

} // namespace
} // namespace exo::net
