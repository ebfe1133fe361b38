// SPDX-License-Identifier: Apache-2.0
#include "runner/settings_flags/settings_flags.hpp"

#include "model/describe.hpp"
#include "model/json.hpp"

#include <CLI/CLI.hpp>
#include <map>

namespace exo::runner {
namespace {

template <class Enum>
CLI::CheckedTransformer names(std::initializer_list<Enum> values) {
    std::map<std::string, Enum> map;
    for (auto const value : values) {
        map.emplace(model::enum_name(value), value);
    }
    return CLI::CheckedTransformer(std::move(map), CLI::ignore_case);
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
