// SPDX-License-Identifier: Apache-2.0
//
// exo's own documents: cluster state, models, health, placements. JSON in camelCase, with the
// field names of specs/exo-behaviour.md section 2.1; requests are read in both spellings. Pure.
#pragma once

#include "api/backend.hpp"
#include "api/error/api_error.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace exo::api::exo_api {

// GET /state: what is agreed (model::State) and what nodes say of themselves, in one document.
[[nodiscard]] nlohmann::json state_document(ClusterView const& view);

// GET /state/{path}: keys (in either spelling) and indices of `document`, each percent-decoded
// already. Error: 404, naming the part that is missing.
[[nodiscard]] ApiResult<nlohmann::json>
state_part(nlohmann::json const& document, std::vector<std::string> const& path);

// GET /models and /v1/models.
[[nodiscard]] nlohmann::json
models_document(std::vector<model::ModelCard> const& cards, std::int64_t created);

// One entry of it.
[[nodiscard]] nlohmann::json model_entry(model::ModelCard const& card, std::int64_t created);

// GET /health: always "ok" while someone answers; says who is master and which models can be
// asked at once.
[[nodiscard]] nlohmann::json health_document(ClusterView const& view);

// POST /place_instance. `defaults_for` a model: what settings are where the request does not say.
[[nodiscard]] ApiResult<PlaceRequest> parse_place_request(
    std::string_view body,
    std::function<model::InstanceSettings(std::string const& model_id)> const& defaults_for
);
[[nodiscard]] nlohmann::json placed_document(Placed const& placed);
[[nodiscard]] nlohmann::json deleted_document(Deleted const& deleted);

// GET /instance/{id}. Error: 404.
[[nodiscard]] ApiResult<nlohmann::json>
instance_document(ClusterView const& view, std::string const& instance_id);

} // namespace exo::api::exo_api
