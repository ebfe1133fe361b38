// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/prompt_lookup.hpp"

#include <algorithm>

namespace exo::engine {
namespace {

// How many tokens before `end` are the same as those before the end of all.
std::size_t match_before(std::span<std::int32_t const> tokens, std::size_t end) {
    std::size_t const most = std::min(end, lookup_match_most);
    std::size_t length = 0;
    while (length < most && tokens[end - 1 - length] == tokens[tokens.size() - 1 - length]) {
        ++length;
    }
    return length;
}

// Where the longest match ends; the end of all if there is none that is long enough.
std::size_t end_of_match(std::span<std::int32_t const> tokens) {
    std::size_t best_end = tokens.size();
    std::size_t best = lookup_match_min - 1;
    for (std::size_t end = tokens.size() - 1; end > best && best < lookup_match_most; --end) {
        auto const length = match_before(tokens, end);
        if (length > best) {
            best = length;
            best_end = end;
        }
    }
    return best_end;
}

} // namespace

std::vector<std::int32_t> PromptLookup::propose(
    std::uint32_t /*slot*/, std::span<std::int32_t const> tokens, std::uint32_t most
) {
    tokens = tokens.last(std::min(tokens.size(), lookup_window));
    std::vector<std::int32_t> draft;
    if (tokens.size() <= lookup_match_min) {
        return draft;
    }
    auto const from = end_of_match(tokens);
    if (from == tokens.size()) {
        return draft;
    }
    auto const period = tokens.size() - from;
    for (std::size_t i = 0; i < most; ++i) {
        draft.push_back(i < period ? tokens[from + i] : draft[i - period]);
    }
    return draft;
}

} // namespace exo::engine
