// SPDX-License-Identifier: Apache-2.0
//
// Models for tests: small ones with random weights, large ones that take no time to
// write (their data is a hole in the file, read as zeros), and models in several files.
#pragma once

#include "base/random.hpp"

#include <fmt/format.h>
#include <ggml-cpp.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace exo::engine {

// A folder that goes away with its test.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "exo-load-XXXXXX").string();
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        path_ = name;
    }

    ~TemporaryFolder() { std::filesystem::remove_all(path_); }

    TemporaryFolder(TemporaryFolder const&) = delete;
    TemporaryFolder& operator=(TemporaryFolder const&) = delete;

    [[nodiscard]] std::string operator/(std::string const& name) const {
        return (path_ / name).string();
    }

private:
    std::filesystem::path path_;
};

// A model of the llama architecture.
struct ModelShape {
    std::uint32_t layers = 4;
    std::uint32_t width = 256;
    std::uint32_t heads = 4;
    std::uint32_t kv_heads = 4;
    std::uint32_t feed_forward = 512;
    std::uint32_t vocabulary = 320; // Without a tokenizer.
    bool tied = false;              // The output matrix is the token embedding.
    bool odd_query = false;         // blk.1.attn_q.weight is narrower than the header says.
    std::string tokenizer_of;       // A file whose tokenizer, and vocabulary, it has.
};

class ModelWriter {
public:
    explicit ModelWriter(ModelShape const& shape)
        : shape_(shape)
        , file_(gguf_init_empty())
        , tensors_(ggml_init({.mem_size = 16u << 20, .mem_buffer = nullptr, .no_alloc = true})) {
        take_tokenizer();
        set("context_length", 2048);
        set("block_count", shape_.layers);
        set("embedding_length", shape_.width);
        set("feed_forward_length", shape_.feed_forward);
        set("attention.head_count", shape_.heads);
        set("attention.head_count_kv", shape_.kv_heads);
        set("rope.dimension_count", shape_.width / shape_.heads);
        set("vocab_size", shape_.vocabulary);
        gguf_set_val_str(file_.get(), "general.architecture", "llama");
        gguf_set_val_f32(file_.get(), "llama.attention.layer_norm_rms_epsilon", 1e-5F);
        add_tensors();
    }

    // Random weights, and norms of ones.
    void write(std::string const& path) const {
        write_sparse(path);
        std::ofstream out(path, std::ios::binary | std::ios::in);
        Random random(/*seed=*/1);
        for (std::int64_t i = 0; i < gguf_get_n_tensors(file_.get()); ++i) {
            auto const start =
                gguf_get_meta_size(file_.get()) + gguf_get_tensor_offset(file_.get(), i);
            auto const bytes = data_of(i, random);
            out.seekp(static_cast<std::streamoff>(start));
            out.write(
                reinterpret_cast<char const*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size())
            );
        }
    }

    void write_sparse(std::string const& path) const {
        EXPECT_TRUE(gguf_write_to_file(file_.get(), path.c_str(), /*only_meta=*/true));
        auto const last = gguf_get_n_tensors(file_.get()) - 1;
        std::filesystem::resize_file(
            path,
            gguf_get_meta_size(file_.get()) + gguf_get_tensor_offset(file_.get(), last) +
                GGML_PAD(gguf_get_tensor_size(file_.get(), last), GGUF_DEFAULT_ALIGNMENT)
        );
    }

private:
    void set(std::string const& key, std::uint32_t value) {
        gguf_set_val_u32(file_.get(), ("llama." + key).c_str(), value);
    }

    [[nodiscard]] std::vector<std::uint8_t> data_of(std::int64_t tensor, Random& random) const {
        std::vector<std::uint8_t> bytes(gguf_get_tensor_size(file_.get(), tensor));
        if (gguf_get_tensor_type(file_.get(), tensor) == GGML_TYPE_F32) {
            float const one = 1;
            for (std::size_t at = 0; at < bytes.size(); at += sizeof one) {
                std::memcpy(bytes.data() + at, &one, sizeof one);
            }
            return bytes;
        }
        // Blocks of Q4_0: a scale that keeps activations finite, then nibbles.
        constexpr std::size_t block_bytes = 18;
        auto const scale = ggml_fp32_to_fp16(0.01F);
        for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
            std::memcpy(bytes.data() + at, &scale, sizeof scale);
            for (std::size_t i = sizeof scale; i < block_bytes; i += 8) {
                auto const nibbles = random.next();
                std::memcpy(bytes.data() + at + i, &nibbles, sizeof nibbles);
            }
        }
        return bytes;
    }

    void take_tokenizer() {
        if (shape_.tokenizer_of.empty()) {
            gguf_set_val_str(file_.get(), "tokenizer.ggml.model", "none");
            return;
        }
        gguf_context_ptr const source(
            gguf_init_from_file(shape_.tokenizer_of.c_str(), {.no_alloc = true, .ctx = nullptr})
        );
        gguf_set_kv(file_.get(), source.get());
        auto const tokens = gguf_find_key(source.get(), "tokenizer.ggml.tokens");
        shape_.vocabulary = static_cast<std::uint32_t>(gguf_get_arr_n(source.get(), tokens));
    }

    void add(std::string const& name, std::int64_t columns, std::int64_t rows) {
        // Vectors are norms, and in full precision.
        auto* const tensor =
            rows == 0 ? ggml_new_tensor_1d(tensors_.get(), GGML_TYPE_F32, columns)
                      : ggml_new_tensor_2d(tensors_.get(), GGML_TYPE_Q4_0, columns, rows);
        ggml_set_name(tensor, name.c_str());
        gguf_add_tensor(file_.get(), tensor);
    }

    void add_tensors() {
        std::int64_t const width = shape_.width;
        std::int64_t const feed_forward = shape_.feed_forward;
        std::int64_t const kv = width / shape_.heads * shape_.kv_heads;
        add("token_embd.weight", width, shape_.vocabulary);
        for (std::uint32_t i = 0; i < shape_.layers; ++i) {
            auto const layer = fmt::format("blk.{}.", i);
            add(layer + "attn_norm.weight", width, 0);
            add(layer + "attn_q.weight", width, shape_.odd_query && i == 1 ? width / 2 : width);
            add(layer + "attn_k.weight", width, kv);
            add(layer + "attn_v.weight", width, kv);
            add(layer + "attn_output.weight", width, width);
            add(layer + "ffn_norm.weight", width, 0);
            add(layer + "ffn_gate.weight", width, feed_forward);
            add(layer + "ffn_up.weight", width, feed_forward);
            add(layer + "ffn_down.weight", feed_forward, width);
        }
        add("output_norm.weight", width, 0);
        if (!shape_.tied) {
            add("output.weight", width, shape_.vocabulary);
        }
    }

    ModelShape shape_;
    gguf_context_ptr file_;
    ggml_context_ptr tensors_;
};

// The model in so many files, with the usual names; the paths in order.
inline std::vector<std::string>
write_parts(std::string const& source, std::string const& prefix, int count) {
    ggml_context* tensors = nullptr;
    gguf_context_ptr const whole(
        gguf_init_from_file(source.c_str(), {.no_alloc = false, .ctx = &tensors})
    );
    ggml_context_ptr const owner(tensors);
    auto const total = gguf_get_n_tensors(whole.get());
    std::vector<std::string> paths;
    for (int part = 0; part < count; ++part) {
        gguf_context_ptr const file(gguf_init_empty());
        if (part == 0) {
            gguf_set_kv(file.get(), whole.get());
        }
        gguf_set_val_u16(file.get(), "split.no", static_cast<std::uint16_t>(part));
        gguf_set_val_u16(file.get(), "split.count", static_cast<std::uint16_t>(count));
        gguf_set_val_i32(file.get(), "split.tensors.count", static_cast<std::int32_t>(total));
        for (auto i = total * part / count; i < total * (part + 1) / count; ++i) {
            gguf_add_tensor(
                file.get(), ggml_get_tensor(tensors, gguf_get_tensor_name(whole.get(), i))
            );
        }
        paths.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", prefix, part + 1, count));
        EXPECT_TRUE(gguf_write_to_file(file.get(), paths.back().c_str(), /*only_meta=*/false));
    }
    return paths;
}

} // namespace exo::engine
