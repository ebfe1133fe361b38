// SPDX-License-Identifier: Apache-2.0
//
// The batch on llama.cpp's own kinds of memory: what is reused must be what would have been
// computed. Small random models, one for each kind, on the CPU without ranks.
#include "collective/local_group.hpp"
#include "engine/batch/batch.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/tests/nmse.hpp"

#include <gguf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>

namespace exo::engine {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::uint32_t vocabulary = 128;
constexpr std::uint32_t window = 32;

PlanLimits const limits{
    .tokens_max = 64,
    .micro_batch = 16,
    .sequences_max = 4,
    .vocabulary_size = vocabulary,
    .context_length = 256,
};

// The header of a model of two layers; each architecture takes what it knows.
class Header {
public:
    explicit Header(std::string architecture)
        : architecture_(std::move(architecture)) {
        gguf_set_val_str(get(), "general.architecture", architecture_.c_str());
        gguf_set_val_str(get(), "tokenizer.ggml.model", "no_vocab");
        number("vocab_size", vocabulary);
        number("context_length", 512);
        number("embedding_length", 64);
        number("block_count", 2);
        number("feed_forward_length", 96);
        number("rope.dimension_count", 32);
        number("ssm.conv_kernel", 4);
        number("ssm.inner_size", 128);
        number("ssm.state_size", 8);
        number("ssm.time_step_rank", 4);
        number("shortconv.l_cache", 3);
        real("attention.layer_norm_rms_epsilon", 1e-5F);
        number("attention.head_count", 2);
    }

    void number(std::string const& key, std::uint32_t value) {
        gguf_set_val_u32(get(), (architecture_ + '.' + key).c_str(), value);
    }

    void by_layer(std::string const& key, std::array<std::uint32_t, 2> const& values) {
        auto const name = architecture_ + '.' + key;
        gguf_set_arr_data(get(), name.c_str(), GGUF_TYPE_UINT32, values.data(), values.size());
    }

    [[nodiscard]] gguf_context* get() const { return context_.get(); }

private:
    struct Deleter {
        void operator()(gguf_context* context) const { gguf_free(context); }
    };

    void real(std::string const& key, float value) {
        gguf_set_val_f32(get(), (architecture_ + '.' + key).c_str(), value);
    }

    std::string architecture_;
    std::unique_ptr<gguf_context, Deleter> context_{gguf_init_empty()};
};

Header attention() {
    Header header("llama");
    header.number("attention.head_count_kv", 1);
    return header;
}

Header sliding_window() {
    Header header("gemma3");
    header.number("attention.head_count_kv", 1);
    header.number("attention.key_length", 32);
    header.number("attention.value_length", 32);
    header.number("attention.sliding_window", window);
    header.number("attention.sliding_window_pattern", 2);
    return header;
}

Header recurrent() {
    return Header("mamba");
}

Header hybrid() {
    Header header("lfm2");
    header.by_layer("attention.head_count_kv", {0, 1});
    return header;
}

Header hybrid_with_window() {
    auto header = hybrid();
    header.number("attention.sliding_window", window);
    return header;
}

// Small numbers that depend on the name only.
void fill(ggml_tensor* tensor, void* /*context*/) {
    std::mt19937 generator(static_cast<std::uint32_t>(std::hash<std::string>()(tensor->name)));
    std::normal_distribution<float> normal(0, 0.3F);
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
    bool const decay = std::strstr(tensor->name, "ssm_a") != nullptr; // Must be below 0.
    for (auto& value : values) {
        value = decay ? -std::fabs(normal(generator)) : normal(generator);
    }
    std::vector<ggml_fp16_t> halves(values.size());
    ggml_fp32_to_fp16_row(values.data(), halves.data(), std::int64_t(values.size()));
    void const* const data = tensor->type == GGML_TYPE_F32 ? static_cast<void*>(values.data())
                                                           : static_cast<void*>(halves.data());
    ggml_backend_tensor_set(tensor, data, 0, ggml_nbytes(tensor));
}

// One rank with such a model, from the batch to llama.cpp.
class Rank {
public:
    explicit Rank(std::function<Header()> const& header, ggml_type cache_type = GGML_TYPE_F16)
        : batch(limits, limits.sequences_max) {
        loaded_.log = std::make_unique<LogCapture>();
        Cluster::Options options{.ranks = 1, .group = &group_};
        options.compute = *make_local_compute({.device = "cpu"});
        loaded_.cluster = std::make_unique<Cluster>(std::move(options));
        auto model = llama_model_default_params();
        model.n_gpu_layers = 0;
        auto const own = header();
        loaded_.model.reset(llama_model_init_from_user(own.get(), fill, nullptr, model));
        if (!loaded_.model) {
            ADD_FAILURE() << loaded_.log->take_errors();
            return;
        }
        auto context = llama_context_default_params();
        context.n_ctx = limits.context_length;
        context.n_batch = limits.tokens_max;
        context.n_ubatch = limits.micro_batch;
        context.n_seq_max = limits.sequences_max;
        context.type_k = context.type_v = cache_type;
        context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
        context.kv_unified = true;
        context.n_threads = context.n_threads_batch = 1;
        loaded_.context.reset(llama_init_from_model(loaded_.model.get(), context));
        decoder_.emplace(loaded_, limits);
        StepPlan warm_up;
        for (std::int32_t i = 0; i < 8; ++i) {
            warm_up.tokens.push_back({.token = i, .position = i, .output = i == 7});
        }
        EXPECT_TRUE(decoder_->execute(warm_up).has_value());
        decoder_->learn_cache_kind();
        batch.set_kind(decoder_->cache_kind());
    }

    void step() {
        auto const first = [&](std::uint32_t slot) { return decoder_->first_position(slot); };
        auto step = batch.next(1000, first);
        step.plan.number = decoder_->next_number();
        auto const done = decoder_->execute(step.plan);
        ASSERT_TRUE(done.has_value()) << done.error().text();
        tokens_computed += step.plan.tokens.size();
        for (auto const& output : step.outputs) {
            auto const logits = decoder_->logits(output.first);
            auto& all = logits_[output.sequence];
            all.emplace_back(logits.begin(), logits.end());
            auto const token = std::ranges::max_element(logits) - logits.begin();
            batch.accept(output.sequence, 0, static_cast<std::int32_t>(token));
        }
    }

    // The logits of so many tokens of an answer; the sequence stays.
    std::vector<std::vector<float>> logits(SequenceId id, std::size_t count) {
        while (logits_[id].size() < count && !testing::Test::HasFatalFailure()) {
            step();
        }
        return {logits_[id].begin(), logits_[id].begin() + std::ptrdiff_t(count)};
    }

    // Asks, and ends it.
    std::vector<std::vector<float>> answer(Tokens const& prompt, std::size_t count) {
        auto const id = batch.add(prompt);
        auto result = logits(id, count);
        reused = batch.sequence(id).reused;
        text = batch.sequence(id).tokens;
        batch.remove(id);
        return result;
    }

    [[nodiscard]] CacheKind const& kind() const { return decoder_->cache_kind(); }

    Batch batch;
    std::size_t tokens_computed = 0;
    std::uint32_t reused = 0; // Of the last prompt.
    Tokens text;              // The last prompt and its answer.

private:
    collective::LocalGroup group_;
    LoadedModel loaded_;
    std::optional<Decoder> decoder_;
    std::map<SequenceId, std::vector<std::vector<float>>> logits_;
};

Tokens tokens(std::size_t count, std::uint32_t seed) {
    std::mt19937 generator(seed);
    Tokens result(count);
    for (auto& token : result) {
        token = static_cast<std::int32_t>(generator() % vocabulary);
    }
    return result;
}

Tokens joined(Tokens left, Tokens const& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

void expect_close(
    std::vector<std::vector<float>> const& values, std::vector<std::vector<float>> const& reference
) {
    ASSERT_EQ(values.size(), reference.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_LE(nmse(values[i], reference[i]), 1e-4) << i;
    }
}

struct Memory {
    char const* name;
    std::function<Header()> header;
    ggml_type cache_type = GGML_TYPE_F16;
};

class MemoryTest : public testing::TestWithParam<Memory> {
protected:
    Rank rank() { return Rank(GetParam().header, GetParam().cache_type); }

    // What a prompt gets when nothing is remembered.
    std::vector<std::vector<float>> alone(Tokens const& prompt, std::size_t count) {
        return rank().answer(prompt, count);
    }
};

TEST_P(MemoryTest, a_conversation_that_goes_on_is_reused_and_means_the_same) {
    auto own = rank();
    (void)own.answer(tokens(50, 1), 10);
    auto const prompt = joined({own.text.begin(), own.text.end() - 1}, tokens(20, 2));
    auto const continued = own.answer(prompt, 5);
    EXPECT_EQ(own.reused, 59u);
    expect_close(continued, alone(prompt, 5));
}

TEST_P(MemoryTest, another_end_of_the_same_beginning_is_right_too) {
    auto own = rank();
    auto const beginning = tokens(40, 1);
    (void)own.answer(joined(beginning, tokens(5, 2)), 10);
    auto const prompt = joined(beginning, tokens(9, 3));
    auto const other = own.answer(prompt, 5);
    EXPECT_EQ(own.reused, own.kind().cuttable ? 40u : 0u);
    expect_close(other, alone(prompt, 5));
}

TEST_P(MemoryTest, sequences_share_what_is_running_and_do_not_disturb_each_other) {
    auto own = rank();
    auto const beginning = tokens(40, 1);
    auto const first = joined(beginning, tokens(5, 2));
    auto const second = joined(beginning, tokens(9, 3));
    auto const first_id = own.batch.add(first);
    (void)own.logits(first_id, 3);
    auto const second_id = own.batch.add(second);
    auto const second_logits = own.logits(second_id, 8);
    EXPECT_EQ(own.batch.sequence(second_id).reused, own.kind().cuttable ? 40u : 0u);
    expect_close(second_logits, alone(second, 8));
    expect_close(own.logits(first_id, 12), alone(first, 12));
}

TEST_P(MemoryTest, the_same_prompt_twice_at_a_time_is_answered_twice_alike) {
    auto own = rank();
    auto const prompt = tokens(60, 4);
    auto const first = own.batch.add(prompt);
    auto const second = own.batch.add(prompt);
    auto const reference = alone(prompt, 6);
    expect_close(own.logits(first, 6), reference);
    expect_close(own.logits(second, 6), reference);
}

// A running sequence's whole state is the beginning of another one: its cells, and its recurrent
// state, then belong to both until one of them goes on.
TEST_P(MemoryTest, a_whole_running_sequence_can_be_continued_by_another) {
    auto own = rank();
    auto const id = own.batch.add(tokens(30, 5));
    (void)own.logits(id, 4);
    auto const text = own.batch.sequence(id).tokens;
    auto const prompt = joined({text.begin(), text.end() - 1}, tokens(7, 6));
    auto const other = own.batch.add(prompt);
    auto const other_logits = own.logits(other, 5);
    EXPECT_EQ(own.batch.sequence(other).reused, 33u);
    expect_close(other_logits, alone(prompt, 5));
    expect_close(own.logits(id, 12), alone(tokens(30, 5), 12));
}

// More than the cache holds, over and over: the old goes, and what is left is right.
TEST_P(MemoryTest, a_full_cache_forgets_and_goes_on) {
    auto own = rank();
    for (std::uint32_t round = 0; round < 6; ++round) {
        (void)own.answer(tokens(100, 10 + round), 20);
    }
    auto const again = joined({own.text.begin(), own.text.end() - 1}, tokens(10, 30));
    auto const logits = own.answer(again, 5);
    EXPECT_EQ(own.reused, 119u);
    expect_close(logits, alone(again, 5));
}

// In a cache with a window the cells of a remembered sequence's beginning go to others, while all
// others keep them.
TEST_P(MemoryTest, a_beginning_that_has_left_the_window_is_computed_again) {
    auto own = rank();
    (void)own.answer(tokens(50, 2), 10);
    auto const first = tokens(100, 1);
    (void)own.answer(first, 20);
    auto const text = own.text;
    (void)own.answer(tokens(50, 3), 10);
    (void)own.answer(joined({text.begin(), text.end() - 1}, tokens(5, 4)), 5); // Used lately.
    // These two take the places before and behind it: llama.cpp, on its way from one to the other,
    // takes what has left the window.
    (void)own.answer(tokens(50, 5), 10);
    (void)own.answer(tokens(50, 6), 10);
    Tokens const back(first.begin(), first.begin() + 60);
    auto const logits = own.answer(back, 5);
    EXPECT_EQ(own.reused, own.kind() == CacheKind{} ? 59u : 0u);
    expect_close(logits, alone(back, 5));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    MemoryTest,
    testing::Values(
        Memory{"attention", attention},
        Memory{"attention_q8_0", attention, GGML_TYPE_Q8_0},
        Memory{"sliding_window", sliding_window},
        Memory{"recurrent", recurrent},
        Memory{"hybrid", hybrid},
        Memory{"hybrid_with_window", hybrid_with_window}
    ),
    [](auto const& row) { return row.param.name; }
);

TEST(CacheKindTest, every_kind_of_memory_is_known_for_what_it_is) {
    EXPECT_EQ(Rank(attention).kind(), (CacheKind{}));
    EXPECT_EQ(Rank(sliding_window).kind(), (CacheKind{.window = window}));
    EXPECT_FALSE(Rank(recurrent).kind().cuttable);
    EXPECT_FALSE(Rank(hybrid).kind().cuttable);
}

} // namespace
} // namespace exo::engine
