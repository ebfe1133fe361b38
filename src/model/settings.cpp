// SPDX-License-Identifier: Apache-2.0
#include "model/settings.hpp"

namespace exo::model {
namespace {

// Of a field where 0 leaves the choice to exo.
std::optional<SettingFault>
out_of_range(char const* field, std::uint32_t value, std::uint32_t least, std::uint32_t most) {
    if (value == 0 || (value >= least && value <= most)) {
        return std::nullopt;
    }
    return SettingFault{
        field,
        "an integer from " + std::to_string(least) + " to " + std::to_string(most) +
            " is needed, or 0 for exo's choice; it is " + std::to_string(value)
    };
}

} // namespace

std::optional<SettingFault> find_fault(InstanceSettings const& settings) {
    if (auto fault = out_of_range(
            "context_length", settings.context_length, context_length_least, context_length_most
        )) {
        return fault;
    }
    if (auto fault = out_of_range("parallel", settings.parallel, 1, parallel_most)) {
        return fault;
    }
    if (auto fault =
            out_of_range("prompt_wait_ms", settings.prompt_wait_ms, 1, prompt_wait_ms_most)) {
        return fault;
    }
    return out_of_range("draft_tokens", settings.draft_tokens, 1, draft_tokens_most);
}

} // namespace exo::model
