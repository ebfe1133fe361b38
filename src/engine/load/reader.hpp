// SPDX-License-Identifier: Apache-2.0
//
// Brings the queued weights of this rank from their files into memory, with several threads: one
// alone does not keep a fast disk busy.
#pragma once

#include "engine/load/model_files.hpp"

#include <functional>
#include <string>
#include <vector>

namespace exo::engine {

struct TensorReads {
    std::string tensor;
    std::vector<WeightRead> reads;
};

// `on_progress` is told the number of layers of which everything has been read; it is called from
// this thread. Error: the first one, after which nothing more is read.
Result<void> read_weights(
    ModelFiles const& files,
    std::vector<TensorReads> const& tensors,
    std::function<void(std::uint32_t layers)> const& on_progress
);

// The layer that a tensor belongs to ("blk.7.attn_q.weight": 7), nothing for others.
[[nodiscard]] std::optional<std::uint32_t> layer_of(std::string_view tensor);

} // namespace exo::engine
