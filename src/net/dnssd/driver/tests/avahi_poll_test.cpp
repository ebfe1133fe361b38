// SPDX-License-Identifier: Apache-2.0
//
// Avahi's loop interface on Asio, as Avahi uses it: also from within its callbacks.
#include "net/dnssd/driver/avahi_poll.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>

namespace exo::net::dnssd {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using asio::ip::udp;

// What a callback was told, and what it does then.
struct Heard {
    std::vector<int> events;
    std::function<void(AvahiWatch*)> then;

    static void on_event(AvahiWatch* watch, int /*fd*/, AvahiWatchEvent event, void* data) {
        auto& self = *static_cast<Heard*>(data);
        self.events.push_back(event);
        if (self.then) {
            self.then(watch);
        }
    }
};

struct Rung {
    int count = 0;
    std::function<void(AvahiTimeout*)> then;

    static void on_time(AvahiTimeout* timeout, void* data) {
        auto& self = *static_cast<Rung*>(data);
        ++self.count;
        if (self.then) {
            self.then(timeout);
        }
    }
};

timeval in(std::chrono::microseconds time) {
    auto const at = std::chrono::system_clock::now().time_since_epoch() + time;
    auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(at);
    auto const rest = std::chrono::duration_cast<std::chrono::microseconds>(at - seconds);
    return {.tv_sec = seconds.count(), .tv_usec = rest.count()};
}

class AvahiPollTest : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
        poll.emplace(context.get_executor(), nullptr);
    }

    void TearDown() override {
        poll.reset();
        run();
        close(ends[0]);
        close(ends[1]);
    }

    AvahiWatch* watch(Heard& heard, AvahiWatchEvent events = AVAHI_WATCH_IN) {
        return api()->watch_new(api(), ends[0], events, Heard::on_event, &heard);
    }

    void send(std::string const& text) {
        ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }

    char take() const {
        char letter = 0;
        return read(ends[0], &letter, 1) == 1 ? letter : '\0';
    }

    // Turns the loop until nothing has happened for a moment.
    void run() {
        context.restart();
        while (context.run_one_for(50ms) > 0) {
        }
    }

    AvahiPoll const* api() { return poll->api(); }

    asio::io_context context{1};
    std::array<int, 2> ends{};
    std::optional<AsioAvahiPoll> poll;
};

TEST_F(AvahiPollTest, a_watch_is_called_again_while_there_is_something_to_read) {
    Heard heard;
    std::string taken;
    heard.then = [&](AvahiWatch* one) {
        EXPECT_EQ(api()->watch_get_events(one), AVAHI_WATCH_IN);
        taken += take();
    };
    auto* const one = watch(heard);
    send("abc");
    run();
    EXPECT_EQ(taken, "abc");
    EXPECT_EQ(heard.events, (std::vector<int>{AVAHI_WATCH_IN, AVAHI_WATCH_IN, AVAHI_WATCH_IN}));
    EXPECT_EQ(api()->watch_get_events(one), 0) << "outside of a callback nothing has happened";
    send("d");
    run();
    EXPECT_EQ(taken, "abcd");
}

TEST_F(AvahiPollTest, a_watch_may_wait_for_room_to_write) {
    Heard heard;
    heard.then = [&](AvahiWatch* one) { api()->watch_update(one, AVAHI_WATCH_IN); };
    watch(heard, AVAHI_WATCH_OUT);
    run();
    EXPECT_EQ(heard.events, std::vector<int>{AVAHI_WATCH_OUT});
    heard.then = [&](AvahiWatch*) { (void)take(); };
    send("a");
    run();
    EXPECT_EQ(heard.events, (std::vector<int>{AVAHI_WATCH_OUT, AVAHI_WATCH_IN}));
}

TEST_F(AvahiPollTest, a_watch_for_nothing_is_silent_until_it_is_updated) {
    Heard heard;
    heard.then = [&](AvahiWatch*) { (void)take(); };
    auto* const one = watch(heard, AvahiWatchEvent{});
    send("a");
    run();
    EXPECT_TRUE(heard.events.empty());
    api()->watch_update(one, AVAHI_WATCH_IN);
    run();
    EXPECT_EQ(heard.events.size(), 1U);
}

TEST_F(AvahiPollTest, a_watch_is_told_that_the_other_side_has_gone) {
    Heard heard;
    heard.then = [&](AvahiWatch* one) { api()->watch_free(one); };
    watch(heard);
    close(ends[1]);
    run();
    ASSERT_EQ(heard.events.size(), 1U);
    EXPECT_NE(heard.events[0] & AVAHI_WATCH_HUP, 0);
    ends[1] = open("/dev/null", O_RDONLY);
}

TEST_F(AvahiPollTest, a_watch_may_be_freed_and_made_anew_in_its_own_callback) {
    Heard second;
    second.then = [&](AvahiWatch*) { (void)take(); };
    Heard first;
    first.then = [&](AvahiWatch* one) {
        api()->watch_free(one);
        watch(second); // Of the same descriptor, as Avahi does when an interface changes.
    };
    watch(first);
    send("ab");
    run();
    EXPECT_EQ(first.events.size(), 1U);
    EXPECT_EQ(second.events.size(), 2U);
    EXPECT_EQ(poll->watch_count(), 1U);
}

TEST_F(AvahiPollTest, a_watch_that_is_freed_while_ready_is_not_called) {
    Heard heard;
    auto* const one = watch(heard);
    send("a");
    api()->watch_free(one);
    close(ends[0]); // Avahi closes its descriptor at once.
    run();
    EXPECT_TRUE(heard.events.empty());
    ends[0] = open("/dev/null", O_RDONLY);
}

TEST_F(AvahiPollTest, a_timeout_rings_once) {
    Rung rung;
    auto const time = in(1ms);
    auto* const one = api()->timeout_new(api(), &time, Rung::on_time, &rung);
    run();
    run();
    EXPECT_EQ(rung.count, 1);
    auto const past = in(-10s);
    api()->timeout_update(one, &past);
    run();
    EXPECT_EQ(rung.count, 2) << "what is over is due at once";
}

TEST_F(AvahiPollTest, a_timeout_without_a_time_does_not_ring) {
    Rung rung;
    auto* const one = api()->timeout_new(api(), nullptr, Rung::on_time, &rung);
    run();
    auto const time = in(0ms);
    api()->timeout_update(one, &time);
    api()->timeout_update(one, nullptr);
    run();
    EXPECT_EQ(rung.count, 0);
}

TEST_F(AvahiPollTest, a_timeout_may_be_set_or_freed_in_its_own_callback) {
    Rung rung;
    rung.then = [&](AvahiTimeout* one) {
        auto const again = in(0ms);
        rung.count < 3 ? api()->timeout_update(one, &again) : api()->timeout_free(one);
    };
    auto const time = in(0ms);
    api()->timeout_new(api(), &time, Rung::on_time, &rung);
    run();
    EXPECT_EQ(rung.count, 3);
    EXPECT_EQ(poll->timeout_count(), 0U);
}

TEST_F(AvahiPollTest, nothing_is_called_after_its_end) {
    Heard heard;
    Rung rung;
    watch(heard);
    auto const time = in(0ms);
    api()->timeout_new(api(), &time, Rung::on_time, &rung);
    send("a");
    poll.reset();
    run();
    EXPECT_TRUE(heard.events.empty());
    EXPECT_EQ(rung.count, 0);
}

TEST_F(AvahiPollTest, datagrams_that_are_not_admitted_are_taken_away_unseen) {
    std::vector<std::size_t> looked_at;
    poll.emplace(context.get_executor(), [&](BytesView datagram) {
        looked_at.push_back(datagram.size());
        return as_text(datagram) != "bad";
    });
    udp::endpoint const loopback(asio::ip::address_v4::loopback(), 0);
    udp::socket receiver(context, loopback);
    udp::socket sender(context, loopback);
    receiver.non_blocking(true);
    Heard heard;
    std::vector<std::string> taken;
    heard.then = [&](AvahiWatch*) {
        std::array<char, 100> buffer{};
        auto const size = recv(receiver.native_handle(), buffer.data(), buffer.size(), 0);
        taken.emplace_back(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    };
    api()->watch_new(api(), receiver.native_handle(), AVAHI_WATCH_IN, Heard::on_event, &heard);
    for (std::string const text : {"bad", "good", "bad", "bad", "fine"}) {
        sender.send_to(asio::buffer(text), receiver.local_endpoint());
    }
    sender.send_to(asio::buffer(std::string(20000, 'x')), receiver.local_endpoint());
    run();
    EXPECT_EQ(taken.size(), 3U);
    EXPECT_EQ(taken[0], "good");
    EXPECT_EQ(taken[1], "fine");
    EXPECT_EQ(looked_at, (std::vector<std::size_t>{3, 4, 3, 3, 4, 9001}));
}

} // namespace
} // namespace exo::net::dnssd
