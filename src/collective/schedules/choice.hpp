// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm and wire format a reduction takes: those that are expected to be done first on
// the links that were measured. Pure and in integers, so that all ranks, given the same links,
// choose alike.
#pragma once

#include "collective/schedules/schedule.hpp"
#include "collective/wire/wire_format.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace exo::collective {

// One message from a rank to another takes latency, and its bytes at this speed.
struct LinkSpeed {
    std::uint64_t latency_ns = 0;
    std::uint64_t bytes_per_second = 0;
    bool within_machine = false;

    bool operator==(LinkSpeed const&) const = default;
};

// Of two ranks on one machine: not measured, for that would measure how busy the machine is.
constexpr LinkSpeed link_within_machine{
    .latency_ns = 16'000, .bytes_per_second = 1'000'000'000, .within_machine = true
};

// From here on values travel as they are. 10 Gbit/s with the cipher of one core gets there, 2.5
// Gbit/s does not.
constexpr std::uint64_t fast_bytes_per_second = 500'000'000;
// Below (less than 100 Mbit/s: a Wi-Fi far away), bytes are so dear that q8 is considered.
constexpr std::uint64_t very_slow_bytes_per_second = 8'000'000;

// As it is compared and told: the nearest power of two, so that two measurements of one link give
// the same choice.
[[nodiscard]] LinkSpeed rounded(LinkSpeed speed);

// "60 us, 125 MB/s"
[[nodiscard]] std::string describe(LinkSpeed const& speed);

// The speed between any two ranks; the same in both directions.
class Links {
public:
    Links(std::uint32_t size, LinkSpeed const& all);

    [[nodiscard]] std::uint32_t size() const { return size_; }

    // REQUIRES: two ranks.
    void set(std::uint32_t one, std::uint32_t other, LinkSpeed const& speed);
    [[nodiscard]] LinkSpeed const& between(std::uint32_t one, std::uint32_t other) const;

    // By bandwidth.
    [[nodiscard]] LinkSpeed slowest() const;

private:
    [[nodiscard]] std::size_t index(std::uint32_t one, std::uint32_t other) const;

    std::uint32_t size_;
    std::vector<LinkSpeed> speeds_; // By pair.
};

// What the user asks for; automatic leaves it to choose().
struct Wish {
    Algorithm algorithm = Algorithm::automatic;
    WireFormat format = WireFormat::automatic;

    bool operator==(Wish const&) const = default;
};

struct Choice {
    Algorithm algorithm = Algorithm::direct;
    WireFormat format = WireFormat::f32;
    std::uint64_t expected_ns = 0;

    bool operator==(Choice const&) const = default;
};

// REQUIRES: links of two ranks at least.
[[nodiscard]] Choice choose(std::size_t count, Links const& links, Wish const& wish);

// How long a reduction is expected to take.
[[nodiscard]] std::uint64_t
expected_ns(Algorithm algorithm, WireFormat format, std::size_t count, Links const& links);

} // namespace exo::collective
