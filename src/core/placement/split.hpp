// SPDX-License-Identifier: Apache-2.0
//
// How a model is cut over ranks whose memory is known. Pure arithmetic, in integers.
#pragma once

#include "core/placement/memory.hpp"
#include "model/card.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace exo::placement {

// Layers of each rank, in proportion to what its memory leaves after overhead, at least one each,
// and no more than fit. Empty if they do not fit. Rank 0 holds the last layers (placement.hpp).
// REQUIRES: 1 <= ranks <= card.n_layers.
[[nodiscard]] std::optional<std::vector<std::uint64_t>>
split_layers(model::ModelCard const& card, Cache cache, std::span<std::uint64_t const> free_bytes);

// Widths of tensor ranks: equal if that fits, since the slowest rank sets the pace; otherwise in
// proportion to memory. Empty if neither fits. REQUIRES: at least one rank.
[[nodiscard]] std::optional<std::vector<std::uint64_t>>
split_width(model::ModelCard const& card, Cache cache, std::span<std::uint64_t const> free_bytes);

} // namespace exo::placement
