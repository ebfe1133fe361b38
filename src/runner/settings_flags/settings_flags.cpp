// SPDX-License-Identifier: Apache-2.0
#include "runner/settings_flags/settings_flags.hpp"

#include "base/text.hpp"
#include "model/describe.hpp"
#include "model/json.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <map>

namespace exo::runner {
namespace {

// Not CLI::CheckedTransformer, whose message and help show our enumerators' numbers, and which
// takes those as well.
template <class Enum>
CLI::Validator names(std::initializer_list<Enum> values) {
    std::map<std::string, Enum> map;
    std::string list;
    for (auto const value : values) {
        map.emplace(model::enum_name(value), value);
        list += (list.empty() ? "" : ", ") + model::enum_name(value);
    }
    auto const replace = [map = std::move(map), list](std::string& text) {
        auto const found = map.find(to_lower(text));
        if (found == map.end()) {
            return fmt::format("'{}' is none of {}", text, list);
        }
        text = std::to_string(static_cast<int>(found->second));
        return std::string();
    };
    return {replace, ""};
}

} // namespace

void add_settings_flags(CLI::App& app, model::InstanceSettings& settings) {
    using enum model::WireType;
    app.add_option("--kv-cache-type", settings.cache_type, "what the KV cache holds: f16 or q8_0")
        ->transform(names({model::CacheType::f16, model::CacheType::q8_0}))
        ->option_text("TYPE");
    app.add_option("--parallel", settings.parallel, "answers at once at most; 0: as memory allows")
        ->check(CLI::Range(0u, model::parallel_most))
        ->option_text("N");
    app.add_option(
           "--wire-type",
           settings.wire_type,
           "what sums travel as between ranks: automatic, f32, f16 or q8"
    )
        ->transform(names({automatic, f32, f16, q8}))
        ->option_text("TYPE");
    app.add_option(
           "--prompt-wait",
           settings.prompt_wait_ms,
           "how long an answer may wait for another one's prompt; 0: the default"
    )
        ->check(CLI::Range(0u, model::prompt_wait_ms_most))
        ->option_text("MS");
    app.add_flag(
        "--prompt-lookup", settings.prompt_lookup, "draft from what prompt and answer repeat"
    );
    app.add_option(
           "--draft-tokens", settings.draft_tokens, "drafted in a step at most; 0: the default"
    )
        ->check(CLI::Range(0u, model::draft_tokens_most))
        ->option_text("N");
}

} // namespace exo::runner
