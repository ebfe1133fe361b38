// SPDX-License-Identifier: Apache-2.0
#include "net/host/connect_first.hpp"

#include "net/host/task_group.hpp"

#include <fmt/format.h>

#include <deque>
#include <memory>
#include <tuple>

namespace exo::net {
namespace {

using Socket = asio::ip::tcp::socket;
using Endpoint = asio::ip::tcp::endpoint;

// Shared by the tries and who waits for them: the latter may be cancelled first.
struct Race {
    explicit Race(asio::any_io_executor const& executor)
        : changed(executor) {}

    Signal changed;
    std::size_t running = 0;
    std::optional<Socket> winner;
    Error last{Errc::timed_out, "no answer"};
};

asio::awaitable<void>
run_try(std::shared_ptr<Race> race, asio::any_io_executor executor, Endpoint to, Duration limit) {
    Socket socket(executor);
    auto const connected = co_await before(now() + limit, socket.async_connect(to, as_value));
    auto const error = connected ? std::get<0>(*connected) : asio::error::timed_out;
    --race->running;
    if (!error && !race->winner) {
        race->winner.emplace(std::move(socket));
    } else if (error) {
        auto const name = fmt::format("{}:{}", to.address().to_string(), to.port());
        race->last = io_error("cannot connect to " + name, error);
    }
    race->changed.notify();
}

} // namespace

std::vector<Endpoint> in_turns(std::vector<Endpoint> const& endpoints) {
    std::deque<Endpoint> ip4;
    std::deque<Endpoint> ip6;
    for (auto const& endpoint : endpoints) {
        (endpoint.address().is_v4() ? ip4 : ip6).push_back(endpoint);
    }
    bool is_turn_of_ip4 = !endpoints.empty() && endpoints.front().address().is_v4();
    std::vector<Endpoint> result;
    while (result.size() < endpoints.size()) {
        auto& turn = (is_turn_of_ip4 && !ip4.empty()) || ip6.empty() ? ip4 : ip6;
        result.push_back(turn.front());
        turn.pop_front();
        is_turn_of_ip4 = !is_turn_of_ip4;
    }
    return result;
}

asio::awaitable<Result<Socket>>
connect_first(asio::any_io_executor executor, std::vector<Endpoint> endpoints, Duration limit) {
    auto const race = std::make_shared<Race>(executor);
    TaskGroup tries(executor);
    for (auto const& endpoint : in_turns(endpoints)) {
        ++race->running;
        tries.spawn(run_try(race, executor, endpoint, limit));
        auto const next = now() + connect_stagger;
        auto const running = race->running;
        while (!race->winner && race->running == running && now() < next) {
            co_await race->changed.wait_until(next);
        }
        if (race->winner) {
            break;
        }
    }
    while (!race->winner && race->running > 0) {
        co_await race->changed.wait();
    }
    tries.cancel_all();
    co_await tries.join();
    if (!race->winner) {
        co_return race->last;
    }
    co_return std::move(*race->winner);
}

} // namespace exo::net
