// SPDX-License-Identifier: Apache-2.0
//
// What exo knows of a model before loading it.
#pragma once

#include "model/ids.hpp"

#include <optional>
#include <string>
#include <vector>

namespace exo::model {

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

    bool operator==(ModelCard const&) const = default;
};

} // namespace exo::model
