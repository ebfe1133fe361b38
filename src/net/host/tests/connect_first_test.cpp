// SPDX-License-Identifier: Apache-2.0
//
// Several endpoints of one name, on loopback.
#include "net/host/connect_first.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace exo::net {
namespace {

using asio::ip::tcp;

tcp::endpoint endpoint(char const* ip, std::uint16_t port) {
    return {asio::ip::make_address(ip), port};
}

// A port that nobody listens on.
std::uint16_t free_port(asio::io_context& io) {
    tcp::acceptor acceptor(io, endpoint("127.0.0.1", 0));
    return acceptor.local_endpoint().port();
}

// A listener whose queue is full: who comes now gets no answer at all.
class DeafListener {
public:
    explicit DeafListener(asio::io_context& io)
        : acceptor_(io, tcp::v4()) {
        acceptor_.bind(endpoint("127.0.0.1", 0));
        acceptor_.listen(0);
        for (int i = 0; i < 4; ++i) {
            waiting_.emplace_back(io);
            waiting_.back().async_connect(acceptor_.local_endpoint(), [](auto) {});
        }
    }

    [[nodiscard]] tcp::endpoint at() const { return acceptor_.local_endpoint(); }

private:
    tcp::acceptor acceptor_;
    std::vector<tcp::socket> waiting_;
};

struct Outcome {
    std::optional<tcp::endpoint> remote;
    std::string error;
    Duration took{};
};

Outcome connect(asio::io_context& io, std::vector<tcp::endpoint> endpoints, Duration limit = 4s) {
    Outcome outcome;
    auto work = [&]() -> asio::awaitable<void> {
        auto const begun = now();
        auto socket = co_await connect_first(io.get_executor(), endpoints, limit);
        outcome.took = now() - begun;
        if (socket) {
            outcome.remote = socket->remote_endpoint();
        } else {
            outcome.error = socket.error().text();
        }
    };
    bool done = false;
    io.restart();
    asio::co_spawn(io, std::move(work), [&](std::exception_ptr error) {
        EXPECT_FALSE(error);
        done = true;
    });
    while (!done && io.run_one_for(20s) > 0) {
    }
    EXPECT_TRUE(done);
    return outcome;
}

TEST(ConnectFirst, families_take_turns_and_the_first_stays_first) {
    auto const a4 = endpoint("10.0.0.1", 1);
    auto const b4 = endpoint("10.0.0.2", 1);
    auto const a6 = endpoint("fd00::1", 1);
    auto const b6 = endpoint("fd00::2", 1);
    using Endpoints = std::vector<tcp::endpoint>;
    EXPECT_EQ(in_turns({a6, b6, a4, b4}), (Endpoints{a6, a4, b6, b4}));
    EXPECT_EQ(in_turns({a4, b4, a6}), (Endpoints{a4, a6, b4}));
    EXPECT_EQ(in_turns({a6, b6}), (Endpoints{a6, b6}));
    EXPECT_EQ(in_turns({}), Endpoints{});
}

TEST(ConnectFirst, B086_an_endpoint_without_an_answer_holds_nobody_up) {
    asio::io_context io;
    DeafListener const deaf(io);
    tcp::acceptor good(io, endpoint("127.0.0.1", 0));
    auto const outcome = connect(io, {deaf.at(), deaf.at(), good.local_endpoint()});
    EXPECT_EQ(outcome.remote, good.local_endpoint());
    EXPECT_LT(outcome.took, 3s); // Two steps of 250 ms; the limit of each is 4 s.
}

TEST(ConnectFirst, one_that_refuses_lets_the_next_one_go_at_once) {
    asio::io_context io;
    tcp::acceptor good(io, endpoint("127.0.0.1", 0));
    auto const refused = endpoint("127.0.0.1", free_port(io));
    auto const outcome = connect(io, {refused, refused, refused, good.local_endpoint()});
    EXPECT_EQ(outcome.remote, good.local_endpoint());
}

TEST(ConnectFirst, when_none_answers_the_last_error_is_told) {
    asio::io_context io;
    auto const refused = endpoint("127.0.0.1", free_port(io));
    auto const outcome = connect(io, {refused});
    EXPECT_FALSE(outcome.remote);
    EXPECT_NE(outcome.error.find(std::to_string(refused.port())), std::string::npos);
    EXPECT_NE(outcome.error.find("refused"), std::string::npos);
    EXPECT_FALSE(connect(io, {}).remote);
}

TEST(ConnectFirst, each_try_has_a_limit) {
    asio::io_context io;
    DeafListener const deaf(io);
    auto const outcome = connect(io, {deaf.at()}, 300ms);
    if (outcome.remote) {
        GTEST_SKIP() << "this kernel takes more connections than a listener asks for";
    }
    EXPECT_LT(outcome.took, 3s);
}

} // namespace
} // namespace exo::net
