// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/link_probe.hpp"

#include "base/assert.hpp"
#include "base/time.hpp"
#include "collective/tcp/big_endian.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace exo::collective {
namespace {

// The best of so many: what disturbs a measurement only makes it slower.
constexpr int pings = 10;
// From a size that even a slow link takes at once to one that a fast link is busy with for a
// while. The largest twice, for a connection that has only just got up to speed.
constexpr std::size_t sizes[] = {16u << 10, 64u << 10, 256u << 10, 1u << 20, 1u << 20};
// A message that took this long says enough, and a longer one would be in the way of others.
constexpr Duration long_enough = 4ms;

constexpr std::size_t wish_bytes = 2;
constexpr std::size_t speed_bytes = 12;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

// One message there, an answer of one byte back.
Result<Duration> round_trip(Group& group, std::uint32_t peer, BytesView message) {
    std::uint8_t answer = 0;
    TimePoint const start = now();
    EXO_TRY(group.send(peer, message));
    EXO_TRY(group.receive(peer, {&answer, 1}));
    return now() - start;
}

// The lower rank asks, the higher one answers until an empty message comes.
Result<LinkSpeed> ask(Group& group, std::uint32_t peer) {
    Bytes const bytes(*std::ranges::max_element(sizes));
    auto const part = [&](std::size_t count) { return BytesView(bytes).first(count); };
    Duration shortest = Duration::max();
    for (int i = 0; i < pings; ++i) {
        auto const time = round_trip(group, peer, part(1));
        if (!time) {
            return time.error();
        }
        shortest = std::min(shortest, *time);
    }
    LinkSpeed speed{.latency_ns = static_cast<std::uint64_t>(shortest.count()) / 2};
    for (auto const size : sizes) {
        auto const time = round_trip(group, peer, part(size));
        if (!time) {
            return time.error();
        }
        auto const of_bytes = std::max<Duration>(*time - shortest, 1us);
        auto const ns = static_cast<std::uint64_t>(of_bytes.count());
        speed.bytes_per_second = std::max(speed.bytes_per_second, size * 1'000'000'000 / ns);
        if (*time >= long_enough) {
            break;
        }
    }
    EXO_TRY(group.send(peer, {}));
    return speed;
}

Result<void> answer(Group& group, std::uint32_t peer) {
    while (true) {
        auto const message = group.receive_message(peer);
        if (!message) {
            return message.error();
        }
        if (message->empty()) {
            return {};
        }
        std::uint8_t const byte = 0;
        EXO_TRY(group.send(peer, {&byte, 1}));
    }
}

std::uint32_t limited(std::uint64_t value) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(std::min(value, most));
}

// What one rank tells the others: its wish, and its links by rank.
Bytes encode(Wish const& wish, std::vector<LinkSpeed> const& speeds) {
    Bytes bytes{static_cast<std::uint8_t>(wish.algorithm), static_cast<std::uint8_t>(wish.format)};
    for (auto const& speed : speeds) {
        append_u32(bytes, limited(speed.latency_ns));
        append_u32(bytes, limited(speed.bytes_per_second / 1000));
        append_u32(bytes, speed.within_machine ? 1 : 0);
    }
    return bytes;
}

LinkSpeed decode_speed(BytesView bytes) {
    return {
        .latency_ns = read_u32(bytes),
        .bytes_per_second = std::uint64_t{read_u32(bytes.subspan(4))} * 1000,
        .within_machine = read_u32(bytes.subspan(8)) == 1,
    };
}

Error different_wishes(std::uint32_t rank, std::uint32_t other) {
    return Error(
        Errc::conflict,
        fmt::format(
            "ranks {} and {} were asked for different wire types or algorithms: give all nodes the "
            "same",
            rank,
            other
        )
    );
}

// Each rank's row to all; of a pair the lower rank's word counts.
Result<Links> agree(Group& group, Wish const& wish, std::vector<LinkSpeed> const& speeds) {
    std::uint32_t const size = group.size();
    auto const own = encode(wish, speeds);
    std::size_t const row_bytes = wish_bytes + size * speed_bytes;
    EXO_ASSERT(own.size() == row_bytes);
    Bytes all(row_bytes * size);
    EXO_TRY(group.all_gather(own, all));
    Links links(size, {});
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        auto const row = BytesView(all).subspan(rank * row_bytes, row_bytes);
        if (!std::ranges::equal(row.first(wish_bytes), BytesView(own).first(wish_bytes))) {
            return different_wishes(group.rank(), rank);
        }
        for (std::uint32_t peer = rank + 1; peer < size; ++peer) {
            auto const at = wish_bytes + peer * speed_bytes;
            links.set(rank, peer, rounded(decode_speed(row.subspan(at, speed_bytes))));
        }
    }
    return links;
}

} // namespace

std::uint32_t rounds_of(std::uint32_t size) {
    return size + size % 2 - 1; // With a guest for an odd number of ranks, whom nobody measures.
}

// The circle method of tournaments: all but the last stand in a circle and meet those whose number
// has the same sum with theirs; who would meet himself meets the last.
std::optional<std::uint32_t>
partner_of(std::uint32_t rank, std::uint32_t size, std::uint32_t round) {
    std::uint32_t const rounds = rounds_of(size);
    auto const across = [&](std::uint32_t one) { return (round + rounds - one) % rounds; };
    std::uint32_t partner = rounds; // The last.
    if (rank == rounds) {
        partner = 0;
        while (across(partner) != partner) {
            ++partner;
        }
    } else if (across(rank) != rank) {
        partner = across(rank);
    }
    return partner < size ? std::optional(partner) : std::nullopt;
}

Result<Links>
measure_links(Group& group, std::vector<bool> const& within_machine, Wish const& wish) {
    std::uint32_t const rank = group.rank();
    std::vector<LinkSpeed> speeds(group.size());
    for (std::uint32_t round = 0; round < rounds_of(group.size()); ++round) {
        auto const partner = partner_of(rank, group.size(), round);
        if (!partner) {
            continue;
        }
        if (within_machine[*partner]) {
            speeds[*partner] = link_within_machine;
        } else if (rank > *partner) {
            EXO_TRY(answer(group, *partner));
        } else {
            auto const speed = ask(group, *partner);
            if (!speed) {
                return speed.error();
            }
            speeds[*partner] = *speed;
        }
    }
    return agree(group, wish, speeds);
}

} // namespace exo::collective
