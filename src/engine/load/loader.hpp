// SPDX-License-Identifier: Apache-2.0
//
// A model and a context over the ranks of a group, with this rank's weights in memory.
#pragma once

#include "base/result.hpp"
#include "collective/group.hpp"
#include "engine/cluster_device/cluster.hpp"
#include "engine/load/log_capture.hpp"
#include "engine/load/model_files.hpp"
#include "engine/load/reader.hpp"
#include "engine/load/rehearsal.hpp"
#include "model/instance.hpp"
#include "model/settings.hpp"

#include <llama-cpp.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace exo::engine {

struct LoadOptions {
    std::vector<std::string> model_paths;
    model::Sharding sharding = model::Sharding::pipeline;
    std::uint32_t ranks = 1;
    std::vector<std::uint64_t> shares; // By rank; empty: even.
    std::uint32_t context_length = 0;  // 0: the model's own, up to context_default_max.
    std::uint32_t context_default_max = 0;
    std::uint32_t micro_batch = 0;
    std::uint32_t step_tokens_max = 0;
    std::uint32_t parallel = 0; // Sequences at a time; 0: as cells and memory allow.
    model::CacheType cache_type = model::CacheType::f16;
    ComputeOptions compute;
    ReadAt read_at; // Empty: pread. Tests fail here.
};

// Members are destroyed from the last to the first: what is below uses what is above.
struct LoadedModel {
    std::unique_ptr<LogCapture> log;
    std::unique_ptr<Cluster> cluster;
    llama_model_ptr model;
    llama_context_ptr context;
};

// What is known before any weight is read.
struct Outline {
    std::unique_ptr<LogCapture> log;
    std::unique_ptr<ModelFiles> files;
    std::unique_ptr<Cluster> cluster;
    llama_model_ptr model;
    llama_context_params parameters{};
    Rehearsal rehearsal;
    std::vector<TensorReads> reads;      // Of this rank's device.
    std::vector<TensorReads> host_reads; // Of tensors in host memory.
    std::uint64_t host_bytes = 0;
    std::vector<FileRange> host_ranges;
};

// Header, tensors and a rehearsal. Without a group every rank is a stand-in; with one, an error is
// the group's too, and names the rank.
[[nodiscard]] Result<Outline> outline_model(LoadOptions const& options, collective::Group* group);

// The rest: compares with the other ranks, reads, makes the context. `on_progress` is told how much
// of this rank's part is there, as a number of the model's layers: rises, and ends at all of them.
// An error is the group's too; an error of the group ends the reading.
[[nodiscard]] Result<LoadedModel> finish_model(
    Outline outline,
    collective::Group& group,
    std::function<void(std::uint32_t layers)> const& on_progress
);

// The limits of llama.cpp's scheduler and meta device (specs/engine.md).
constexpr std::uint32_t pipeline_ranks_max = 15;
constexpr std::uint32_t tensor_ranks_max = 16;

} // namespace exo::engine
