// SPDX-License-Identifier: Apache-2.0
#include "node/settings.hpp"

#include "storage/models/find_card.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace exo::node {
namespace {

// Only the engine can compare vocabularies word for word; here their sizes must do.
bool similar_vocabularies(model::ModelCard const& left, model::ModelCard const& right) {
    auto const [least, most] = std::minmax(left.vocabulary_size, right.vocabulary_size);
    return most - least <= model::draft_padding_most;
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
    bool const serves = draft && similar_vocabularies(*draft, card) &&
                        draft->storage_size.in_bytes < card.storage_size.in_bytes;
    defaults.draft_model = serves ? std::optional(draft->model_id) : std::nullopt;
    return defaults;
}

Result<model::ModelId> draft_for(
    model::ModelCard const& card,
    model::ModelId const& draft,
    std::span<model::ModelCard const> known
) {
    auto const found = storage::find_card(known, draft.value());
    if (!found) {
        return Error(Errc::invalid_argument, "settings.draft_model: " + found.error().text());
    }
    if (!similar_vocabularies(*found, card)) {
        return Error(
            Errc::invalid_argument,
            fmt::format(
                "settings.draft_model: {} cannot draft for {}: its vocabulary has {} tokens, that "
                "of the model {}",
                found->model_id.value(),
                card.model_id.value(),
                found->vocabulary_size,
                card.vocabulary_size
            )
        );
    }
    return found->model_id;
}

} // namespace exo::node
