// SPDX-License-Identifier: Apache-2.0
#include "node/settings.hpp"

#include "storage/models/find_card.hpp"

#include <algorithm>

namespace exo::node {
namespace {

bool similar(std::uint32_t left, std::uint32_t right) {
    return std::max(left, right) - std::min(left, right) <= model::draft_padding_most;
}

} // namespace

model::InstanceSettings settings_for(
    model::ModelCard const& card,
    model::InstanceSettings defaults,
    std::span<model::ModelCard const> known
) {
    if (!defaults.draft_model) {
        return defaults;
    }
    auto const draft = storage::find_card(known, defaults.draft_model->value());
    // Only the engine can compare vocabularies word for word; here their sizes must do.
    bool const serves = draft && similar(draft->vocabulary_size, card.vocabulary_size) &&
                        draft->storage_size.in_bytes < card.storage_size.in_bytes;
    defaults.draft_model = serves ? std::optional(draft->model_id) : std::nullopt;
    return defaults;
}

} // namespace exo::node
