// SPDX-License-Identifier: Apache-2.0
//
// What all ranks do in one step: changes of the cache, then one decode. Rank 0 decides, the others
// check and obey. Pure.
//
// On the wire (version 2), integers little-endian:
//     u8 version, u8 kind (0 decode, 1 end), u64 number,
//     u32 count of cache changes, each: u8 kind (0 removal, 1 copy), u32 sequence,
//         a removal: i32 from, i32 to; a copy: u32 source, i32 to
//     u32 count of tokens, each: i32 token, i32 position, u32 sequence, u8 output
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace exo::engine {

// A sequence gives up its cells at positions [from, to); `to` -1: all from `from` on.
struct CacheRemoval {
    std::uint32_t sequence = 0;
    std::int32_t from = 0;
    std::int32_t to = -1;

    bool operator==(CacheRemoval const&) const = default;
};

// A sequence that has no cells shares those of `source` at positions [0, to); `to` -1: all. No
// bytes move: the cells belong to both from now on.
struct CacheCopy {
    std::uint32_t sequence = 0;
    std::uint32_t source = 0;
    std::int32_t to = -1;

    bool operator==(CacheCopy const&) const = default;
};

using CacheChange = std::variant<CacheRemoval, CacheCopy>;

struct PlanToken {
    std::int32_t token = 0;
    std::int32_t position = 0;
    std::uint32_t sequence = 0;
    bool output = false; // Logits after this token are wanted.

    bool operator==(PlanToken const&) const = default;
};

struct StepPlan {
    enum class Kind : std::uint8_t { decode, end };

    Kind kind = Kind::decode;
    std::uint64_t number = 0;         // Counts from 0 without gaps.
    std::vector<CacheChange> changes; // In this order, before the decode.
    std::vector<PlanToken> tokens;

    bool operator==(StepPlan const&) const = default;
};

// What llama.cpp would abort on, or ranks disagree on, if a plan held it.
struct PlanLimits {
    std::uint32_t tokens_max = 0;
    std::uint32_t micro_batch = 0;
    std::uint32_t sequences_max = 0;
    std::int32_t vocabulary_size = 0;
    std::uint32_t context_length = 0;
};

[[nodiscard]] Bytes encode(StepPlan const& plan);

// Error: protocol.
[[nodiscard]] Result<StepPlan> decode_step_plan(BytesView bytes);

// Error: protocol, naming what is wrong. `number` is the one that must come next.
[[nodiscard]] Result<void>
validate(StepPlan const& plan, PlanLimits const& limits, std::uint64_t number);

} // namespace exo::engine
