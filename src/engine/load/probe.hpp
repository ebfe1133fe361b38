// SPDX-License-Identifier: Apache-2.0
//
// Can this model be placed so, and what would each rank need? Found out by loading it with every
// rank as a stand-in, which takes a fraction of a second and no memory to speak of.
#pragma once

#include "base/result.hpp"
#include "engine/cluster_device/file_source.hpp"
#include "engine/load/loader.hpp"

#include <string>
#include <vector>

namespace exo::engine {

struct RankNeed {
    std::uint64_t weight_bytes = 0;
    double cache_bytes_per_token = 0;
    std::uint64_t compute_bytes = 0;
    std::vector<FileRange> ranges; // Sorted, apart; the headers are among them.
};

struct ProbeReport {
    std::string architecture;
    std::uint32_t layers = 0;
    std::uint32_t context_length = 0; // That the numbers are for.
    std::size_t files = 1;
    std::uint64_t layer_bytes = 0; // Weights of the largest layer.
    std::vector<RankNeed> ranks;
};

[[nodiscard]] Result<ProbeReport> probe_model(LoadOptions const& options);

// `{ok: true, ...}` as specs/engine.md has it, and `layer_bytes` from above. A range is [offset,
// length], or in a model of several files [offset, length, file]; tensor cuts give tens of
// thousands of them.
[[nodiscard]] std::string to_json(ProbeReport const& report, bool with_ranges = true);
[[nodiscard]] std::string probe_refusal(std::string const& reason);

} // namespace exo::engine
