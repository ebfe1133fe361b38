// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/tcp_group.hpp"

#include "base/assert.hpp"
#include "base/log.hpp"
#include "collective/tcp/connector.hpp"
#include "collective/tcp/core.hpp"
#include "collective/tcp/link_probe.hpp"
#include "collective/tcp/reducer.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

namespace exo::collective {
namespace {

// What a waiting rank may spend on looking again and again, as long as nobody else needs the core:
// ten times the cost of a sleep and a wake-up, so that ranks whose parts of a model differ still
// find each other awake; and little beside a wait for a prompt.
constexpr Duration spin_of_an_idle_core = 1ms;

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
    Handshake::Self self{.key = key, .membership = membership, .size = size};
    std::vector<Network> private_networks;
    for (auto const& text : options.private_networks) {
        auto network = Network::parse(text);
        if (!network) {
            return network.error();
        }
        private_networks.push_back(*network);
    }
    Connector connector(
        std::move(listener), std::move(self), endpoints, std::move(private_networks), options
    );
    auto joined = connector.run();
    if (!joined) {
        return joined.error();
    }
    std::unique_ptr<TcpGroup> group(
        new TcpGroup(std::make_unique<TcpCore>(membership.rank, size, std::move(*joined), options))
    );
    EXO_TRY(group->prepare_sums(options));
    // Two lines: a node cuts what its runners say.
    log::info("collective", "rank {} of {}", membership.rank, group->core_->describe());
    log::info("collective", "rank {}: {}", membership.rank, group->reducer_->describe());
    return group;
}

TcpGroup::TcpGroup(std::unique_ptr<TcpCore> core)
    : core_(std::move(core)) {}

TcpGroup::~TcpGroup() = default;

Result<void> TcpGroup::prepare_sums(TcpOptions const& options) {
    Links links(size(), link_within_machine);
    if (options.measure_links) {
        auto measured = measure_links(*this, core_->within_machine(), options.wish);
        if (!measured) {
            fail(measured.error()); // The others are told why this one leaves.
            return measured.error();
        }
        links = std::move(*measured);
    }
    reducer_ = std::make_unique<Reducer>(*core_, std::move(links), options.wish);
    return {};
}

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
    return reducer_->all_reduce(values);
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
    return fmt::format("{}; {}", core_->describe(), reducer_->describe());
}

} // namespace exo::collective
