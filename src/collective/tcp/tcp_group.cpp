// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/tcp_group.hpp"

#include "base/assert.hpp"
#include "base/log.hpp"
#include "collective/tcp/connector.hpp"
#include "collective/tcp/core.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

namespace exo::collective {
namespace {

// What a waiting rank may spend on looking again and again: about what a sleep and a wake-up cost.
constexpr Duration spin_of_an_idle_core = 50us;
// Sizes of all-reduces whose schedules are kept; a model has a few (its width, by micro-batch).
constexpr std::size_t schedules_max = 64;

std::span<std::uint8_t> bytes_of(std::span<float> values) {
    return {reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()};
}

std::span<float> part(std::span<float> values, Range range) {
    return values.subspan(range.first, range.count);
}

Result<void> check_endpoints(Membership const& membership, std::vector<Endpoint> const& endpoints) {
    if (endpoints.size() < 2 || endpoints.size() > ranks_max) {
        return Error(
            Errc::invalid_argument,
            fmt::format("a group over TCP has 2 to {} ranks, not {}", ranks_max, endpoints.size())
        );
    }
    if (membership.rank >= endpoints.size()) {
        return Error(
            Errc::invalid_argument,
            fmt::format("there is no rank {} among {}", membership.rank, endpoints.size())
        );
    }
    for (std::uint32_t rank = 0; rank < membership.rank; ++rank) {
        if (endpoints[rank].addresses.empty() || endpoints[rank].port == 0) {
            return Error(
                Errc::invalid_argument, fmt::format("rank {} has no address or no port", rank)
            );
        }
    }
    return {};
}

} // namespace

Duration spin_time(std::uint32_t cores, std::uint32_t threads) {
    return threads <= cores ? spin_of_an_idle_core : Duration(0);
}

Result<std::unique_ptr<TcpGroup>> TcpGroup::connect(
    Listener listener,
    Key const& key,
    Membership const& membership,
    std::vector<Endpoint> const& endpoints,
    TcpOptions const& options
) {
    EXO_TRY(check_endpoints(membership, endpoints));
    EXO_ASSERT(sodium_init() >= 0);
    auto const size = static_cast<std::uint32_t>(endpoints.size());
    Handshake::Self self{
        .key = key,
        .membership = membership,
        .size = size,
        .plain_allowed = options.plain_on_one_machine,
    };
    Connector connector(std::move(listener), std::move(self), endpoints, options);
    auto joined = connector.run();
    if (!joined) {
        return joined.error();
    }
    auto core = std::make_unique<TcpCore>(membership.rank, size, std::move(*joined), options);
    log::info("collective", "rank {} of {}", membership.rank, core->describe());
    return std::unique_ptr<TcpGroup>(new TcpGroup(std::move(core)));
}

TcpGroup::TcpGroup(std::unique_ptr<TcpCore> core)
    : core_(std::move(core)) {}

TcpGroup::~TcpGroup() = default;

std::uint32_t TcpGroup::rank() const {
    return core_->rank();
}

std::uint32_t TcpGroup::size() const {
    return core_->size();
}

Result<void> TcpGroup::send(std::uint32_t to, BytesView bytes) {
    EXO_ASSERT(to < size());
    EXO_ASSERT(to != rank());
    EXO_ASSERT(bytes.size() <= message_bytes_max);
    Exchange exchange;
    exchange.send(to, Operation::send, bytes);
    return core_->run(exchange);
}

Result<void> TcpGroup::receive(std::uint32_t from, std::span<std::uint8_t> bytes) {
    EXO_ASSERT(from < size());
    EXO_ASSERT(from != rank());
    Exchange exchange;
    exchange.receive(from, Operation::send, bytes);
    return core_->run(exchange);
}

Result<Bytes> TcpGroup::receive_message(std::uint32_t from) {
    EXO_ASSERT(from < size());
    EXO_ASSERT(from != rank());
    Exchange exchange;
    auto& inbound = exchange.receive_any_size(from, Operation::send);
    EXO_TRY(core_->run(exchange));
    return std::move(inbound.message);
}

Result<void> TcpGroup::broadcast(std::uint32_t root, std::span<std::uint8_t> bytes) {
    EXO_ASSERT(root < size());
    EXO_ASSERT(bytes.size() <= message_bytes_max);
    Exchange exchange;
    if (rank() != root) {
        exchange.receive(root, Operation::broadcast, bytes);
        return core_->run(exchange);
    }
    for (std::uint32_t peer = 0; peer < size(); ++peer) {
        if (peer != root) {
            exchange.send(peer, Operation::broadcast, bytes);
        }
    }
    return core_->run(exchange);
}

Result<void> TcpGroup::all_reduce(std::span<float> values) {
    EXO_ASSERT(values.size_bytes() <= message_bytes_max);
    if (schedules_.size() >= schedules_max && !schedules_.contains(values.size())) {
        schedules_.clear();
    }
    auto const [entry, is_new] = schedules_.try_emplace(values.size());
    if (is_new) {
        auto const algorithm = core_->algorithm() == Algorithm::automatic
                                   ? choose(values.size(), size())
                                   : core_->algorithm();
        entry->second = all_reduce_schedule(algorithm, rank(), size(), values.size());
    }
    for (auto const& step : entry->second) {
        EXO_TRY(run(step, values));
    }
    return {};
}

Result<void> TcpGroup::run(Step const& step, std::span<float> values) {
    bool const sums = step.arrival == Step::Arrival::sum;
    std::size_t const count = sums && !step.receives.empty() ? step.receives[0].range.count : 0;
    arrivals_.resize(std::max(arrivals_.size(), count * step.receives.size()));
    auto const arrival = [&](std::size_t i) {
        return std::span(arrivals_).subspan(i * count, count);
    };
    Exchange exchange;
    for (std::size_t i = 0; i < step.receives.size(); ++i) {
        auto const& move = step.receives[i];
        auto const into = sums ? arrival(i) : part(values, move.range);
        exchange.receive(move.peer, Operation::all_reduce, bytes_of(into));
    }
    for (auto const& move : step.sends) {
        exchange.send(move.peer, Operation::all_reduce, bytes_of(part(values, move.range)));
    }
    EXO_TRY(core_->run(exchange));
    if (!sums || step.receives.empty()) {
        return {};
    }
    sum_in_rank_order(
        step,
        rank(),
        part(values, step.receives[0].range),
        std::span(arrivals_).first(count * step.receives.size())
    );
    return {};
}

Result<void> TcpGroup::all_gather(BytesView part, std::span<std::uint8_t> all) {
    EXO_ASSERT(all.size() == part.size() * size());
    EXO_ASSERT(part.size() <= message_bytes_max);
    Exchange exchange;
    for (std::uint32_t peer = 0; peer < size(); ++peer) {
        auto const into = all.subspan(peer * part.size(), part.size());
        if (peer == rank()) {
            std::ranges::copy(part, into.begin());
        } else {
            exchange.receive(peer, Operation::all_gather, into);
            exchange.send(peer, Operation::all_gather, part);
        }
    }
    return core_->run(exchange);
}

Result<void> TcpGroup::barrier() {
    Exchange exchange;
    for (std::uint32_t peer = 0; peer < size(); ++peer) {
        if (peer != rank()) {
            exchange.receive(peer, Operation::barrier, {});
            exchange.send(peer, Operation::barrier, {});
        }
    }
    return core_->run(exchange);
}

void TcpGroup::fail(Error error) {
    core_->latch(std::move(error));
}

Result<void> TcpGroup::health() const {
    return core_->health();
}

std::string TcpGroup::describe() const {
    return core_->describe();
}

} // namespace exo::collective
