// SPDX-License-Identifier: Apache-2.0
//
// What exo knows of a model before loading it.
#pragma once

#include "model/ids.hpp"

#include <optional>
#include <string>
#include <vector>

namespace exo::model {

enum class Sharding { pipeline, tensor };

// What one rank takes of a model that is cut into even shares.
struct RankNeed {
    std::uint64_t weight_bytes = 0;
    std::uint64_t kv_bytes_per_token = 0; // f16
    std::uint64_t compute_bytes = 0;      // The buffers of graphs.

    bool operator==(RankNeed const&) const = default;
};

// Whether llama.cpp can run the model so, and what that takes: tried with the model's file by
// `exo runner --probe`, not estimated.
struct ModelCut {
    Sharding sharding = Sharding::pipeline;
    std::uint32_t ranks = 1;
    std::string refusal;           // Why it cannot; empty if it can.
    std::uint64_t layer_bytes = 0; // Weights of the largest layer.
    std::vector<RankNeed> needs;   // By rank.

    bool operator==(ModelCut const&) const = default;
};

struct ModelCard {
    ModelId model_id;
    Memory storage_size; // All tensors, as on disk.
    std::uint32_t n_layers = 0;
    std::uint32_t hidden_size = 0;
    std::uint32_t num_attention_heads = 0;
    std::uint32_t num_key_value_heads = 0;
    std::uint32_t context_length = 0; // What the model was trained for, in tokens.
    std::uint32_t vocabulary_size = 0;
    std::uint64_t kv_bytes_per_token = 0; // Of all layers, f16.
    bool supports_tensor = false;
    std::string architecture; // GGUF general.architecture
    std::string family;
    std::string quantization; // "Q4_K_M"
    std::string name;
    std::vector<std::string> tasks{"TextGeneration"};
    std::vector<std::string> capabilities{"text"};
    std::vector<ModelCut> cuts; // The verdicts there are; a card from a disk has none.

    bool operator==(ModelCard const&) const = default;
};

} // namespace exo::model
