// SPDX-License-Identifier: Apache-2.0
//
// Weights in the layout of the CPU's fast kernels, packed part by part: the answers are those of
// llama.cpp with plain weights.
#include "collective/local_group.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/load/loader.hpp"
#include "engine/load/tests/gguf_files.hpp"
#include "engine/tests/nmse.hpp"

#include <llama-cpp.h>

namespace exo::engine {
namespace {

constexpr std::int32_t prompt_tokens = 40;

std::int32_t token_at(std::int32_t position) {
    return 3 + position * 7 % 300;
}

std::vector<float> plain_logits(std::string const& path) {
    auto parameters = llama_model_default_params();
    parameters.use_extra_bufts = false;
    llama_model_ptr const model(llama_model_load_from_file(path.c_str(), parameters));
    auto wanted = llama_context_default_params();
    wanted.n_ctx = 256;
    wanted.n_threads = wanted.n_threads_batch = 1;
    llama_context_ptr const context(llama_init_from_model(model.get(), wanted));
    std::vector<llama_token> tokens;
    for (std::int32_t i = 0; i < prompt_tokens; ++i) {
        tokens.push_back(token_at(i));
    }
    EXPECT_EQ(llama_decode(context.get(), llama_batch_get_one(tokens.data(), prompt_tokens)), 0);
    auto const* const logits = llama_get_logits_ith(context.get(), -1);
    return {logits, logits + llama_vocab_n_tokens(llama_model_get_vocab(model.get()))};
}

std::vector<float> packed_logits(std::string const& path) {
    collective::LocalGroup alone;
    LoadOptions options;
    options.model_paths = {path};
    options.context_length = 256;
    options.micro_batch = 64;
    options.step_tokens_max = 64;
    options.parallel = 1;
    auto outline = outline_model(options, &alone);
    EXPECT_TRUE(outline) << outline.error().text();
    auto loaded = finish_model(std::move(*outline), alone, [](std::uint32_t) {});
    EXPECT_TRUE(loaded) << loaded.error().text();
    auto const vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(loaded->model.get()));
    PlanLimits limits;
    limits.tokens_max = limits.micro_batch = 64;
    limits.sequences_max = 1;
    limits.vocabulary_size = vocabulary;
    limits.context_length = 256;
    Decoder decoder(*loaded, limits);
    StepPlan plan;
    plan.number = decoder.next_number();
    for (std::int32_t i = 0; i < prompt_tokens; ++i) {
        plan.tokens.push_back(
            {.token = token_at(i), .position = i, .output = i + 1 == prompt_tokens}
        );
    }
    auto const done = decoder.execute(plan);
    EXPECT_TRUE(done) << done.error().text();
    auto const logits = decoder.logits(prompt_tokens - 1);
    return {logits.begin(), logits.end()};
}

TEST(Packing, in_parts_gives_the_answers_of_plain_weights) {
    TemporaryFolder const folder;
    auto const path = folder / "model.gguf";
    ModelShape shape; // Of 5 and 9 MB: some parts and a rest.
    shape.layers = 1;
    shape.width = 2048;
    shape.heads = 16;
    shape.kv_heads = 16;
    shape.feed_forward = 4128;
    ModelWriter(shape).write(path);
    auto const expected = plain_logits(path);
    auto const values = packed_logits(path);
    ASSERT_EQ(values.size(), expected.size());
    EXPECT_LE(nmse(values, expected), 1e-4);
}

} // namespace
} // namespace exo::engine
