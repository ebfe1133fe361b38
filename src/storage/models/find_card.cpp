// SPDX-License-Identifier: Apache-2.0
#include "storage/models/find_card.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace exo::storage {
namespace {

constexpr std::size_t candidates_max = 5; // In a message to a person.
constexpr std::size_t name_bytes_max = 200;
constexpr std::size_t distance_max = 3; // Typing errors.

using Cards = std::vector<model::ModelCard const*>;

std::string short_name(std::string const& id) {
    return id.substr(id.rfind('/') + 1);
}

std::string without_quantization(std::string const& id) {
    auto const colon = id.rfind(':');
    return colon == std::string::npos ? id : id.substr(0, colon);
}

// Names that a person may type for the card, from the most to the least exact, in lower case.
using Naming = std::function<std::vector<std::string>(model::ModelCard const&)>;

std::vector<Naming> const& namings() {
    auto const lower_id = [](model::ModelCard const& card) {
        return to_lower(card.model_id.value());
    };
    static std::vector<Naming> const all{
        [=](auto const& card) { return std::vector{lower_id(card)}; },
        [=](auto const& card) {
            return std::vector{lower_id(card) + ":" + to_lower(card.quantization)};
        },
        [=](auto const& card) {
            auto const name = short_name(lower_id(card));
            return std::vector{name, name + ":" + to_lower(card.quantization)};
        },
        [=](auto const& card) {
            auto const plain = without_quantization(lower_id(card));
            return std::vector{plain, short_name(plain)};
        },
    };
    return all;
}

std::string ids_of(Cards const& cards) {
    std::vector<std::string> ids;
    for (auto const* card : cards) {
        ids.push_back(card->model_id.value());
    }
    std::sort(ids.begin(), ids.end());
    bool const more = ids.size() > candidates_max;
    ids.resize(std::min(ids.size(), candidates_max));
    return fmt::format("{}{}", fmt::join(ids, ", "), more ? ", ..." : "");
}

// Levenshtein's: insertions, deletions and replacements from one to the other.
std::size_t edit_distance(std::string const& from, std::string const& to) {
    std::vector<std::size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= from.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= to.size(); ++j) {
            std::size_t const replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

bool comes_near(std::string const& wanted, std::string const& id) {
    auto const name = short_name(id);
    auto const wanted_name = short_name(wanted);
    if (wanted_name.empty() || wanted.size() > name_bytes_max || id.size() > name_bytes_max) {
        return false;
    }
    bool const like_length = wanted_name.size() <= name.size() + distance_max &&
                             name.size() <= wanted_name.size() + distance_max;
    return name.find(wanted_name) != std::string::npos ||
           wanted_name.find(without_quantization(name)) != std::string::npos ||
           (like_length && edit_distance(wanted_name, name) <= distance_max);
}

Error no_such_model(std::span<model::ModelCard const> cards, std::string const& model_id) {
    Cards near;
    Cards all;
    for (auto const& card : cards) {
        all.push_back(&card);
        if (comes_near(to_lower(model_id), to_lower(card.model_id.value()))) {
            near.push_back(&card);
        }
    }
    std::string advice = "no model is on any disk of the cluster yet";
    if (!near.empty()) {
        advice = "did you mean " + ids_of(near) + "?";
    } else if (!all.empty()) {
        advice = "there are " + ids_of(all);
    }
    std::string const shown(utf8_prefix(model_id, name_bytes_max));
    return Error(Errc::not_found, fmt::format("no model '{}': {}", shown, advice));
}

} // namespace

Result<model::ModelCard>
find_card(std::span<model::ModelCard const> cards, std::string const& model_id) {
    for (auto const& card : cards) {
        if (card.model_id.value() == model_id) {
            return card;
        }
    }
    auto const wanted = to_lower(model_id);
    for (auto const& naming : namings()) {
        Cards fits;
        for (auto const& card : cards) {
            auto const names = naming(card);
            if (std::find(names.begin(), names.end(), wanted) != names.end()) {
                fits.push_back(&card);
            }
        }
        if (fits.size() == 1) {
            return *fits.front();
        }
        if (fits.size() > 1) {
            return Error(
                Errc::not_found,
                fmt::format("'{}' fits several models, name one: {}", model_id, ids_of(fits))
            );
        }
    }
    return no_such_model(cards, model_id);
}

} // namespace exo::storage
