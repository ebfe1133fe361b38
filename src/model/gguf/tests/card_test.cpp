// SPDX-License-Identifier: Apache-2.0
#include "gguf_bytes.hpp"
#include "model/gguf/card.hpp"

#include <gtest/gtest.h>

namespace exo::model::gguf {
namespace {

using tests::File;
using tests::small_llama;

Header header_of(File const& file) {
    auto const bytes = file.bytes();
    auto const parsed = parse_header(bytes, bytes.size());
    EXPECT_TRUE(parsed) << parsed.error().text();
    return parsed ? std::get<Header>(*parsed) : Header{};
}

Result<ModelCard> card_of(File const& file, std::string_view name = "x.gguf") {
    auto const header = header_of(file);
    return card_from_gguf(header, header.tensor_bytes, name);
}

// What an attention model needs at least.
File model_of(std::string const& architecture, std::uint32_t layers) {
    File file;
    file.text("general.architecture", architecture)
        .u32(architecture + ".block_count", layers)
        .u32(architecture + ".embedding_length", 128);
    return file;
}

TEST(GgufCard, a_small_llama) {
    auto const card = card_of(small_llama(), "tiny-llama.Q4_1.gguf");
    ASSERT_TRUE(card) << card.error().text();
    ModelCard expected;
    expected.storage_size.in_bytes = 120 + 256 + 8192;
    expected.n_layers = 2;
    expected.hidden_size = 64;
    expected.num_attention_heads = 4;
    expected.num_key_value_heads = 2;
    expected.context_length = 2048;
    expected.vocabulary_size = 3;
    expected.kv_bytes_per_token = 2 * 2 * (16 + 16) * 2; // layers, heads, K and V, f16
    expected.supports_tensor = true;
    expected.architecture = "llama";
    expected.family = "TinyLlama";
    expected.quantization = "Q4_1";
    expected.name = "Tiny Llama";
    EXPECT_EQ(*card, expected);
}

TEST(GgufCard, figures_that_are_given_once_a_layer) {
    auto file = model_of("lfm2", 4);
    file.u32s("lfm2.attention.head_count", {8, 8, 4, 8})
        .u32s("lfm2.attention.head_count_kv", {0, 2, 0, 4})
        .u32("lfm2.attention.key_length", 64)
        .u32("lfm2.attention.value_length", 32);
    auto const card = card_of(file);
    ASSERT_TRUE(card) << card.error().text();
    EXPECT_EQ(card->num_attention_heads, 8u);
    EXPECT_EQ(card->num_key_value_heads, 4u);
    EXPECT_EQ(card->kv_bytes_per_token, (2u + 4u) * (64 + 32) * 2);
}

TEST(GgufCard, without_kv_heads_there_are_as_many_as_heads) {
    auto file = model_of("gpt2", 3);
    file.u32("gpt2.attention.head_count", 4);
    auto const card = card_of(file);
    EXPECT_EQ(card->num_key_value_heads, 4u);
    EXPECT_EQ(card->kv_bytes_per_token, 3u * 4 * (32 + 32) * 2);
}

TEST(GgufCard, layers_between_full_attention_have_no_kv_cache) {
    auto file = model_of("qwen3next", 8);
    file.u32("qwen3next.attention.head_count", 4)
        .u32("qwen3next.attention.head_count_kv", 2)
        .u32("qwen3next.full_attention_interval", 4);
    EXPECT_EQ(card_of(file)->kv_bytes_per_token, 2u * 2 * (32 + 32) * 2);
}

TEST(GgufCard, a_model_without_attention_has_no_kv_cache_and_is_not_cut) {
    auto file = model_of("mamba", 2);
    file.u32("mamba.attention.head_count", 0);
    auto const card = card_of(file);
    EXPECT_EQ(card->kv_bytes_per_token, 0u);
    EXPECT_FALSE(card->supports_tensor);
}

TEST(GgufCard, B066_only_what_can_be_cut_by_width_is_offered_for_tensor) {
    for (std::string const architecture : {"mamba", "gemma3n", "grok", "bert"}) {
        auto file = model_of(architecture, 2);
        file.u32(architecture + ".attention.head_count", 8);
        EXPECT_FALSE(card_of(file)->supports_tensor) << architecture;
    }
    for (std::string const architecture : {"deepseek2", "minimax-m2", "qwen3moe", "bloom"}) {
        auto file = model_of(architecture, 2);
        file.u32(architecture + ".attention.head_count", 8);
        EXPECT_TRUE(card_of(file)->supports_tensor) << architecture;
    }
    auto one_head = model_of("gemma3", 2);
    one_head.u32("gemma3.attention.head_count", 4).u32("gemma3.attention.head_count_kv", 1);
    EXPECT_TRUE(card_of(one_head)->supports_tensor);
}

TEST(GgufCard, an_embedding_model_says_so) {
    auto file = model_of("bert", 2);
    file.u32("bert.attention.head_count", 4);
    EXPECT_EQ(card_of(file)->tasks, (std::vector<std::string>{"TextEmbedding"}));
}

TEST(GgufCard, quantization_comes_from_the_header_else_from_the_name) {
    auto guessed = model_of("llama", 1);
    guessed.u32("general.file_type", 1024 + 15);
    EXPECT_EQ(card_of(guessed)->quantization, "Q4_K_M");
    auto removed = model_of("llama", 1);
    removed.u32("general.file_type", 33);
    EXPECT_EQ(card_of(removed, "x-q4_0.gguf")->quantization, "Q4_0");
    EXPECT_EQ(card_of(model_of("llama", 1), "x.IQ3_XXS.gguf")->quantization, "IQ3_XXS");
    EXPECT_EQ(card_of(model_of("llama", 1), "x.gguf")->quantization, "");
}

TEST(GgufCard, vocabulary_without_a_tokenizer) {
    auto keyed = model_of("llama", 1);
    keyed.u32("llama.vocab_size", 1000);
    EXPECT_EQ(card_of(keyed)->vocabulary_size, 1000u);
    auto embedded = model_of("llama", 1);
    embedded.tensor({"token_embd.weight", {128, 77}, 0, 128 * 77 * 4});
    EXPECT_EQ(card_of(embedded)->vocabulary_size, 77u);
}

TEST(GgufCard, what_is_missing_or_absurd_is_named) {
    auto const says = [](File const& file, std::string_view text) {
        auto const card = card_of(file);
        ASSERT_FALSE(card);
        EXPECT_NE(card.error().text().find(text), std::string::npos) << card.error().text();
    };
    says(File(), "general.architecture");
    File no_layers;
    no_layers.text("general.architecture", "llama").u32("llama.embedding_length", 1);
    says(no_layers, "llama.block_count");
    File no_width;
    no_width.text("general.architecture", "llama").u32("llama.block_count", 1);
    says(no_width, "llama.embedding_length");
    says(model_of("llama", 0xffffffff), "llama.block_count is 4294967295");
    auto heads = model_of("llama", 1);
    heads.u32("llama.attention.head_count", 0xffffffff);
    says(heads, "llama.attention.head_count");
    auto context = model_of("llama", 1);
    context.u32("llama.context_length", 0xffffffff);
    says(context, "context_length is 4294967295");
}

TEST(GgufCard, kinds_of_content) {
    EXPECT_EQ(content_of(header_of(small_llama())), Content::model);
    EXPECT_EQ(content_of(header_of(File().text("general.type", "model"))), Content::model);
    EXPECT_EQ(content_of(header_of(File().text("general.type", "mmproj"))), Content::projector);
    EXPECT_EQ(
        content_of(header_of(File().text("general.architecture", "clip"))), Content::projector
    );
    EXPECT_EQ(content_of(header_of(File().text("general.type", "adapter"))), Content::adapter);
    EXPECT_EQ(content_of(header_of(File().text("general.type", "imatrix"))), Content::other);
}

TEST(GgufCard, parts_of_a_split_model) {
    EXPECT_EQ(split_of(header_of(small_llama())), std::nullopt);
    File whole;
    whole.u16("split.count", 1);
    EXPECT_EQ(split_of(header_of(whole)), std::nullopt);
    File part;
    part.u16("split.no", 2).u16("split.count", 3).i32("split.tensors.count", 291);
    EXPECT_EQ(split_of(header_of(part)), (Split{.number = 2, .count = 3, .tensors_count = 291}));
}

} // namespace
} // namespace exo::model::gguf
