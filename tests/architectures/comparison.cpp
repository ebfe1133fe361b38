// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"

#include "child.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/load/loader.hpp"
#include "engine/load/probe.hpp"
#include "ranks.hpp"

#include <llama-cpp.h>

#include <array>
#include <cstring>
#include <utility>

namespace exo::architectures {
namespace {

constexpr std::uint32_t context_length = 256;
// The prompt takes several micro-batches, the last of which is not full.
constexpr std::uint32_t micro_batch = 16;
constexpr std::array<std::int32_t, 5> step_tokens{40, 1, 1, 1, 1};
constexpr std::int32_t first_output = 32; // llama.cpp gives logits of the last micro-batch only.
constexpr std::uint32_t step_tokens_max = 64;

Bytes to_bytes(std::span<float const> values) {
    Bytes bytes(values.size_bytes());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

Result<Logits> to_logits(Result<Bytes> const& bytes) {
    if (!bytes) {
        return bytes.error();
    }
    Logits values(bytes->size() / sizeof(float));
    std::memcpy(values.data(), bytes->data(), values.size() * sizeof(float));
    return values;
}

// The steps, whoever makes them.
std::vector<engine::StepPlan> steps(std::int32_t vocabulary_size) {
    std::vector<engine::StepPlan> plans;
    std::int32_t position = 0;
    for (auto const count : step_tokens) {
        engine::StepPlan plan;
        plan.number = plans.size();
        for (std::int32_t i = 0; i < count; ++i, ++position) {
            plan.tokens.push_back({
                .token = (7 + position * 37) % vocabulary_size,
                .position = position,
                .output = position >= first_output,
            });
        }
        plans.push_back(std::move(plan));
    }
    return plans;
}

std::int32_t vocabulary_size_of(llama_model const* model) {
    return llama_vocab_n_tokens(llama_model_get_vocab(model));
}

// ---- llama.cpp alone

Result<void> decode(llama_context* context, engine::StepPlan const& plan) {
    auto const count = static_cast<std::int32_t>(plan.tokens.size());
    auto batch = llama_batch_init(count, /*embd=*/0, /*n_seq_max=*/1);
    batch.n_tokens = count;
    for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
        batch.token[i] = plan.tokens[i].token;
        batch.pos[i] = plan.tokens[i].position;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = plan.tokens[i].output ? 1 : 0;
    }
    int const code = llama_decode(context, batch);
    llama_batch_free(batch);
    return code == 0 ? Result<void>() : Error(Errc::unsupported, "llama.cpp cannot decode it");
}

Result<Bytes> run_llama(std::string const& path) {
    engine::LogCapture log;
    std::array<ggml_backend_dev_t, 1> no_devices{nullptr};
    auto model_parameters = llama_model_default_params();
    model_parameters.devices = no_devices.data();
    llama_model_ptr const model(llama_model_load_from_file(path.c_str(), model_parameters));
    if (!model) {
        return Error(Errc::unsupported, "llama.cpp cannot load it: " + log.take_errors());
    }
    auto parameters = llama_context_default_params();
    parameters.n_ctx = context_length;
    parameters.n_batch = step_tokens_max;
    parameters.n_ubatch = micro_batch;
    parameters.n_threads = parameters.n_threads_batch = 1;
    llama_context_ptr const context(llama_init_from_model(model.get(), parameters));
    if (!context) {
        return Error(Errc::unsupported, "llama.cpp has no context for it: " + log.take_errors());
    }
    auto const vocabulary_size = vocabulary_size_of(model.get());
    Bytes all;
    for (auto const& plan : steps(vocabulary_size)) {
        EXO_TRY(decode(context.get(), plan));
        for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
            if (plan.tokens[i].output) {
                auto const* row = llama_get_logits_ith(context.get(), static_cast<int>(i));
                append(all, to_bytes({row, static_cast<std::size_t>(vocabulary_size)}));
            }
        }
    }
    return all;
}

// ---- ranks

engine::LoadOptions
load_options(std::string const& path, model::Sharding sharding, std::uint32_t ranks) {
    return {
        .model_paths = {path},
        .sharding = sharding,
        .ranks = ranks,
        .context_length = context_length,
        .micro_batch = micro_batch,
        .step_tokens_max = step_tokens_max,
        .parallel = 1,
    };
}

Result<Bytes> run_rank(engine::LoadOptions const& options, collective::Group& group) {
    auto outline = engine::outline_model(options, &group);
    if (!outline) {
        return outline.error();
    }
    auto loaded = engine::finish_model(std::move(*outline), group, [](std::uint32_t) {});
    if (!loaded) {
        return loaded.error();
    }
    auto const vocabulary_size = vocabulary_size_of(loaded->model.get());
    engine::Decoder decoder(
        *loaded,
        {.tokens_max = step_tokens_max,
         .micro_batch = micro_batch,
         .sequences_max = 1,
         .vocabulary_size = vocabulary_size,
         .context_length = context_length}
    );
    Bytes all;
    for (auto const& plan : steps(vocabulary_size)) {
        EXO_TRY(decoder.execute(plan));
        for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
            if (plan.tokens[i].output && group.rank() == 0) {
                append(all, to_bytes(decoder.logits(i)));
            }
        }
    }
    EXO_TRY(group.barrier());
    return all;
}

} // namespace

Result<Logits> logits_of_llama(std::string const& path) {
    return to_logits(Child([&] { return run_llama(path); }).wait());
}

Result<void> probe(std::string const& path, model::Sharding sharding, std::uint32_t ranks) {
    auto answer = Child([&]() -> Result<Bytes> {
                      auto const report = engine::probe_model(load_options(path, sharding, ranks));
                      if (!report) {
                          return report.error();
                      }
                      return Bytes{};
                  }).wait();
    return answer ? Result<void>() : answer.error();
}

Result<Logits>
logits_of_ranks(std::string const& path, model::Sharding sharding, std::uint32_t ranks) {
    auto const options = load_options(path, sharding, ranks);
    return to_logits(run_ranks(ranks, [&](collective::Group& group) {
        return run_rank(options, group);
    }));
}

} // namespace exo::architectures
