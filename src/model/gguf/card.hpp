// SPDX-License-Identifier: Apache-2.0
//
// What a GGUF header says of its model: the card that placement and the API work with. Pure.
#pragma once

#include "model/card.hpp"
#include "model/gguf/header.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace exo::model::gguf {

// What a file holds, by its metadata.
enum class Content {
    model,
    projector, // Vision or audio tower (mmproj), used beside a model.
    adapter,   // LoRA
    other,     // Importance matrix, vocabulary only
};

[[nodiscard]] Content content_of(Header const& header);

// A part of a split model: split.no (from 0), split.count, split.tensors.count (of all parts).
struct Split {
    std::uint64_t number = 0;
    std::uint64_t count = 1;
    std::uint64_t tensors_count = 0;

    bool operator==(Split const&) const = default;
};

[[nodiscard]] std::optional<Split> split_of(Header const& header);

// The card, with an empty model_id: that depends on where the file lies. `header` is the first
// part's; `tensor_bytes` and the name of the file (no folder) are of the whole model. Error:
// unsupported or corrupt, with the key that is missing or absurd.
[[nodiscard]] Result<ModelCard>
card_from_gguf(Header const& header, std::uint64_t tensor_bytes, std::string_view file_name);

// "SmolLM2-135M-Instruct.Q4_1.gguf" is {"SmolLM2-135M-Instruct", "Q4_1"}. The number of a part
// ("-00001-of-00003") and the extension are dropped; the quantization is upper case, with its
// prefix if it has one ("UD-Q4_K_XL"), and may be empty.
struct FileName {
    std::string stem;
    std::string quantization;

    bool operator==(FileName const&) const = default;
};

[[nodiscard]] FileName parse_file_name(std::string_view file_name);

// {2, 3} of "x-00002-of-00003.gguf". Nothing for another name.
struct PartName {
    std::string base; // "x"
    std::uint32_t number = 1;
    std::uint32_t count = 1;

    bool operator==(PartName const&) const = default;
};

[[nodiscard]] std::optional<PartName> parse_part_name(std::string_view file_name);

} // namespace exo::model::gguf
