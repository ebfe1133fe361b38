// SPDX-License-Identifier: Apache-2.0
//
// Brings the queued weights of this rank from their files into memory: only what is asked for, each
// byte once, with several threads, for one alone does not keep a fast disk busy.
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

struct ReadHooks {
    // How much has been read: rises, and ends at all. Called from this thread, after each change
    // that it has time for.
    std::function<void(std::uint64_t done, std::uint64_t all)> on_progress;
    // Asked from this thread at least every check_interval: an error ends the reading.
    std::function<Result<void>()> check;
    // Told of each part as soon as its bytes are where they go, by the thread that brought them.
    // May be empty.
    std::function<Result<void>(WeightRead const&)> landed;
};

// A tensor may be among `tensors` twice (tied embeddings: rows for the host, columns for a device):
// what lies within another read of it, or equals one before it, is copied from there. Error: the
// first one, after which nothing more is read.
Result<void> read_weights(
    ModelFiles const& files, std::vector<TensorReads> const& tensors, ReadHooks const& hooks
);

// The layer that a tensor belongs to ("blk.7.attn_q.weight": 7), nothing for others.
[[nodiscard]] std::optional<std::uint32_t> layer_of(std::string_view tensor);

} // namespace exo::engine
