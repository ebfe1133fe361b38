// SPDX-License-Identifier: Apache-2.0
//
// What is known of each architecture: list.tsv, and docs/architectures.md, which is made from it.
//
// A result is one of
//     "1e-13"       it runs, and its logits differ by at most that (as an NMSE, rounded up)
//     "no: reason"  it is refused
#pragma once

#include "base/result.hpp"

#include <map>
#include <string>

namespace exo::architectures {

constexpr double nmse_max = 1e-4;

struct Results {
    std::string pipeline;
    std::string tensor;

    bool operator==(Results const&) const = default;
};

using List = std::map<std::string, Results>; // By "architecture, variant".

[[nodiscard]] Result<List> read_list(std::string const& path);
[[nodiscard]] std::string to_tsv(List const& list);
[[nodiscard]] std::string to_page(List const& list);

[[nodiscard]] std::string result_of(double nmse);
// Without what differs between machines: folders, and llama.cpp's repetitions.
[[nodiscard]] std::string refusal_of(std::string reason);

[[nodiscard]] bool runs(std::string const& result);

// How many architectures run, in some variant.
[[nodiscard]] std::size_t count_running(List const& list, std::string Results::* mode);

} // namespace exo::architectures
