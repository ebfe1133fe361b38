// SPDX-License-Identifier: Apache-2.0
//
// How the engine of an instance is to run: the user's wishes, the same on all ranks. Every default
// is the best choice for most.
#pragma once

#include "model/ids.hpp"

#include <optional>
#include <string>

namespace exo::model {

// What the KV cache holds. q8_0 takes half the memory for a small loss of precision.
enum class CacheType { f16, q8_0 };

// What sums of activations travel as between ranks. Automatic: as the measured link asks for.
enum class WireType { automatic, f32, f16, q8 };

struct InstanceSettings {
    std::uint32_t context_length = 0; // Tokens of KV cache; 0: the placement decides.
    CacheType cache_type = CacheType::f16;
    std::uint32_t parallel = 0; // Sequences in the batch at most; 0: as memory allows.
    WireType wire_type = WireType::automatic;
    // How long a running answer may wait for another one's prompt, in milliseconds; 0: the default.
    std::uint32_t prompt_wait_ms = 0;

    // Speculative decoding: tokens proposed by what the text repeats (prompt lookup), else by a
    // small model of the same vocabulary, and checked by the model in one step.
    std::optional<ModelId> draft_model;
    bool prompt_lookup = false;
    std::uint32_t draft_tokens = 0; // Proposed in a step at most; 0: the default.

    bool operator==(InstanceSettings const&) const = default;
};

// A shorter cache holds no chat; a longer one than any model is trained for is a slip of the hand.
constexpr std::uint32_t context_length_least = 256;
constexpr std::uint32_t context_length_most = 1u << 24;
constexpr std::uint32_t parallel_most = 256; // LLAMA_MAX_SEQ
constexpr std::uint32_t prompt_wait_ms_most = 60'000;
// Of a long draft the end is nearly always wrong; and all of a step's drafts must fit in one
// micro-batch (engine/batch).
constexpr std::uint32_t draft_tokens_most = 16;

// By how many tokens a draft model's vocabulary may be longer or shorter: models of a family are
// padded to sizes that suit their hardware.
constexpr std::uint32_t draft_padding_most = 512;

struct SettingFault {
    std::string field;
    std::string text; // "an integer from 1 to 9 is needed, or 0 for ..."
};

// The first value that no instance can have. Every way in is checked by it: requests, flags,
// commands from other nodes.
[[nodiscard]] std::optional<SettingFault> find_fault(InstanceSettings const& settings);

} // namespace exo::model
