// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/vocabulary.hpp"

#include "base/text.hpp"
#include "model/settings.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace exo::engine {

std::optional<std::string> vocabulary_difference(
    std::span<std::string_view const> model, std::span<std::string_view const> draft
) {
    auto const least = std::min(model.size(), draft.size());
    if (std::max(model.size(), draft.size()) - least > model::draft_padding_most) {
        return fmt::format(
            "its vocabulary has {} tokens, that of the model {}", draft.size(), model.size()
        );
    }
    for (std::size_t i = 0; i < least; ++i) {
        if (model[i] != draft[i]) {
            constexpr std::size_t shown = 40; // Words from a file may be of any length.
            return fmt::format(
                "token {} is '{}' to it and '{}' to the model",
                i,
                utf8_prefix(draft[i], shown),
                utf8_prefix(model[i], shown)
            );
        }
    }
    return std::nullopt;
}

} // namespace exo::engine
