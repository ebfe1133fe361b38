// SPDX-License-Identifier: Apache-2.0
//
// Whether a model can draft for another one: drafts are tokens, so both must mean the same by them.
// Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace exo::engine {

// Why not; empty if `draft` has the same words as `model` under the same numbers. One of them may
// have some more at the end, as padding.
[[nodiscard]] std::optional<std::string> vocabulary_difference(
    std::span<std::string_view const> model, std::span<std::string_view const> draft
);

} // namespace exo::engine
