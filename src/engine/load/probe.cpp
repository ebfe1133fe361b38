// SPDX-License-Identifier: Apache-2.0
#include "engine/load/probe.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace exo::engine {
namespace {

std::vector<FileRange> merged(std::vector<FileRange> ranges) {
    std::ranges::sort(ranges, {}, [](FileRange const& range) {
        return std::tuple(range.place.file, range.place.offset);
    });
    std::vector<FileRange> result;
    for (auto const& range : ranges) {
        if (!result.empty() && result.back().place.file == range.place.file) {
            auto& last = result.back();
            auto const end = last.place.offset + last.bytes;
            if (range.place.offset <= end) {
                last.bytes = std::max(end, range.place.offset + range.bytes) - last.place.offset;
                continue;
            }
        }
        result.push_back(range);
    }
    return result;
}

std::uint64_t largest_layer(ModelFiles const& files) {
    std::map<std::uint32_t, std::uint64_t> layers;
    std::uint64_t largest = 0;
    for (auto const& [name, entry] : files.tensors()) {
        if (auto const layer = layer_of(name)) {
            largest = std::max(largest, layers[*layer] += entry.bytes);
        }
    }
    return largest;
}

} // namespace

Result<ProbeReport> probe_model(LoadOptions const& options) {
    auto outline = outline_model(options, /*group=*/nullptr);
    if (!outline) {
        return outline.error();
    }
    ProbeReport report;
    report.architecture = outline->files->architecture();
    report.layers = outline->files->layer_count();
    report.context_length = outline->rehearsal.context_length;
    report.files = outline->files->count();
    report.layer_bytes = largest_layer(*outline->files);
    for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
        auto const& use = outline->rehearsal.use[rank];
        RankNeed need;
        need.weight_bytes = use.weight_bytes;
        need.cache_bytes_per_token =
            static_cast<double>(use.cache_bytes) / static_cast<double>(report.context_length);
        need.compute_bytes = use.compute_bytes;
        auto ranges = outline->cluster->ranges(rank);
        for (std::uint32_t file = 0; file < report.files; ++file) {
            ranges.push_back({{file, 0}, outline->files->header_bytes(file)});
        }
        if (outline->rehearsal.needs_host_weights[rank]) {
            need.weight_bytes += outline->host_bytes;
            std::ranges::copy(outline->host_ranges, std::back_inserter(ranges));
        }
        need.ranges = merged(std::move(ranges));
        report.ranks.push_back(std::move(need));
    }
    return report;
}

std::string to_json(ProbeReport const& report, bool with_ranges) {
    auto ranks = nlohmann::json::array();
    for (auto const& need : report.ranks) {
        auto ranges = nlohmann::json::array();
        for (auto const& range : with_ranges ? need.ranges : std::vector<FileRange>{}) {
            nlohmann::json item = {range.place.offset, range.bytes};
            if (report.files > 1) {
                item.push_back(range.place.file);
            }
            ranges.push_back(std::move(item));
        }
        ranks.push_back({
            {"weight_bytes", need.weight_bytes},
            {"kv_bytes_per_token", static_cast<std::uint64_t>(need.cache_bytes_per_token + 0.5)},
            {"compute_bytes", need.compute_bytes},
            {"ranges", std::move(ranges)},
        });
    }
    nlohmann::json const json = {
        {"ok", true},
        {"reason", ""},
        {"architecture", report.architecture},
        {"layers", report.layers},
        {"context", report.context_length},
        {"layer_bytes", report.layer_bytes},
        {"ranks", std::move(ranks)},
    };
    return json.dump();
}

std::string probe_refusal(std::string const& reason) {
    nlohmann::json const json = {
        {"ok", false}, {"reason", reason}, {"ranks", nlohmann::json::array()}
    };
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace exo::engine
