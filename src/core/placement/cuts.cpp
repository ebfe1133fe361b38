// SPDX-License-Identifier: Apache-2.0
#include "core/placement/cuts.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::placement {
namespace {

using namespace model;

// What was tried with so many ranks or, of a pipeline, with as many fewer as it takes.
ModelCut const* nearest(ModelCard const& card, Sharding sharding, std::uint32_t ranks) {
    ModelCut const* best = nullptr;
    for (auto const& cut : card.cuts) {
        bool const fits = sharding == Sharding::pipeline ? cut.ranks <= ranks : cut.ranks == ranks;
        if (cut.sharding == sharding && fits && (best == nullptr || cut.ranks > best->ranks)) {
            best = &cut;
        }
    }
    return best;
}

// Empty if it can, to judge by the card alone.
std::string expected_refusal(ModelCard const& card) {
    if (!card.supports_tensor) {
        return "its architecture (" + card.architecture + ") cannot be cut by tensor";
    }
    return {};
}

std::string words(ModelCut const& cut) {
    if (cut.ranks == 1) {
        return "it cannot be run: " + cut.refusal;
    }
    return std::string("it cannot be cut by ") +
           (cut.sharding == Sharding::tensor ? "tensor" : "layers") + " into " +
           std::to_string(cut.ranks) + " parts: " + cut.refusal;
}

} // namespace

ModelCut const* cut_of(ModelCard const& card, Sharding sharding, std::uint32_t ranks) {
    auto const found = std::ranges::find_if(card.cuts, [&](ModelCut const& cut) {
        return cut.sharding == sharding && cut.ranks == ranks && cut.refusal.empty() &&
               cut.needs.size() == ranks;
    });
    return found == card.cuts.end() ? nullptr : &*found;
}

std::string why_not_cut(ModelCard const& card, Sharding sharding, std::uint32_t ranks) {
    EXO_ASSERT(ranks > 0);
    sharding = ranks == 1 ? Sharding::pipeline : sharding;
    if (auto const* const cut = nearest(card, sharding, ranks)) {
        return cut->refusal.empty() ? "" : words(*cut);
    }
    if (sharding == Sharding::pipeline) {
        return {};
    }
    if (card.cuts.empty()) {
        return expected_refusal(card);
    }
    return "cutting it by tensor into " + std::to_string(ranks) + " parts has not been tried";
}

} // namespace exo::placement
