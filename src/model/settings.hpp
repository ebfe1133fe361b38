// SPDX-License-Identifier: Apache-2.0
//
// How the engine of an instance is to run: the user's wishes, the same on all ranks. Every default
// is the best choice for most.
#pragma once

#include "model/ids.hpp"

#include <optional>

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

    // Speculative decoding: tokens proposed by a small model of the same vocabulary, or by what the
    // text repeats, and checked by the model in one step.
    std::optional<ModelId> draft_model;
    bool prompt_lookup = false;
    std::uint32_t draft_tokens = 0; // Proposed in a step at most; 0: the default.

    bool operator==(InstanceSettings const&) const = default;
};

} // namespace exo::model
