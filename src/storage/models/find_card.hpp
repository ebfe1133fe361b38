// SPDX-License-Identifier: Apache-2.0
//
// Which model a user means. Pure.
#pragma once

#include "base/result.hpp"
#include "model/card.hpp"

#include <span>
#include <string>

namespace exo::storage {

// The card that `model_id` names among `cards`. In this order, without regard to case unless two
// ids differ only in it: the whole id; "id:QUANT" of a card with that id and quantization; the
// short name, which is the id after its last "/", with or without its ":QUANT". Error: not_found,
// with the candidates when the name fits several, else with the ids that come near.
[[nodiscard]] Result<model::ModelCard>
find_card(std::span<model::ModelCard const> cards, std::string const& model_id);

} // namespace exo::storage
