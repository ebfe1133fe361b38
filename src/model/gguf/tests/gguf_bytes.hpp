// SPDX-License-Identifier: Apache-2.0
//
// Writes GGUF files for tests, byte by byte: right ones, and wrong ones on purpose.
#pragma once

#include "base/bytes.hpp"

#include <bit>
#include <string>
#include <vector>

namespace exo::model::gguf::tests {

class Writer {
public:
    template <class Unsigned>
    Writer& number(Unsigned value) {
        for (std::size_t i = 0; i < sizeof value; ++i) {
            bytes_.push_back(static_cast<std::uint8_t>(std::uint64_t{value} >> 8 * i));
        }
        return *this;
    }

    Writer& raw(std::string_view text) {
        append(bytes_, as_bytes(text));
        return *this;
    }

    Writer& text(std::string_view value) { return number(std::uint64_t{value.size()}).raw(value); }

    Writer& pad_to(std::size_t alignment, std::size_t from = 0) {
        while ((bytes_.size() - from) % alignment != 0) {
            bytes_.push_back(0);
        }
        return *this;
    }

    Writer& zeros(std::size_t count) {
        bytes_.resize(bytes_.size() + count);
        return *this;
    }

    [[nodiscard]] Bytes const& bytes() const { return bytes_; }

private:
    Bytes bytes_;
};

struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dimensions;
    std::uint32_t type = 0;
    std::uint64_t bytes = 0;
};

// A whole file: metadata in the order of the calls, then tensors, then zeros as data.
class File {
public:
    File& u32(std::string const& key, std::uint32_t value) {
        entry(key, 4).number(value);
        return *this;
    }

    File& u16(std::string const& key, std::uint16_t value) {
        entry(key, 2).number(value);
        return *this;
    }

    File& i32(std::string const& key, std::int32_t value) {
        entry(key, 5).number(static_cast<std::uint32_t>(value));
        return *this;
    }

    File& f32(std::string const& key, float value) {
        entry(key, 6).number(std::bit_cast<std::uint32_t>(value));
        return *this;
    }

    File& boolean(std::string const& key, bool value) {
        entry(key, 7).number(static_cast<std::uint8_t>(value));
        return *this;
    }

    File& text(std::string const& key, std::string const& value) {
        entry(key, 8).text(value);
        return *this;
    }

    File& texts(std::string const& key, std::vector<std::string> const& values) {
        auto& writer = array(key, 8, values.size());
        for (auto const& value : values) {
            writer.text(value);
        }
        return *this;
    }

    File& u32s(std::string const& key, std::vector<std::uint32_t> const& values) {
        auto& writer = array(key, 4, values.size());
        for (auto const value : values) {
            writer.number(value);
        }
        return *this;
    }

    File& tensor(Tensor tensor) {
        tensors_.push_back(std::move(tensor));
        return *this;
    }

    [[nodiscard]] Bytes bytes(std::uint32_t version = 3) const {
        Writer file;
        file.raw("GGUF").number(version);
        file.number(std::uint64_t{tensors_.size()}).number(std::uint64_t{entries_});
        file.raw(as_text(metadata_.bytes()));
        std::uint64_t offset = 0;
        for (auto const& tensor : tensors_) {
            file.text(tensor.name).number(static_cast<std::uint32_t>(tensor.dimensions.size()));
            for (auto const dimension : tensor.dimensions) {
                file.number(dimension);
            }
            file.number(tensor.type).number(offset);
            offset += (tensor.bytes + 31) / 32 * 32;
        }
        for (auto const& tensor : tensors_) {
            file.pad_to(32).zeros(tensor.bytes);
        }
        return file.bytes();
    }

private:
    Writer& entry(std::string const& key, std::uint32_t type) {
        ++entries_;
        return metadata_.text(key).number(type);
    }

    Writer& array(std::string const& key, std::uint32_t type, std::size_t count) {
        return entry(key, 9).number(type).number(std::uint64_t{count});
    }

    Writer metadata_;
    std::size_t entries_ = 0;
    std::vector<Tensor> tensors_;
};

// A llama of two layers that a card can be made of.
inline File small_llama() {
    File file;
    file.text("general.architecture", "llama")
        .text("general.name", "Tiny Llama")
        .text("general.basename", "TinyLlama")
        .u32("general.file_type", 3)
        .u32("llama.block_count", 2)
        .u32("llama.context_length", 2048)
        .u32("llama.embedding_length", 64)
        .u32("llama.attention.head_count", 4)
        .u32("llama.attention.head_count_kv", 2)
        .f32("llama.rope.freq_base", 10000.0f)
        .boolean("tokenizer.ggml.add_bos_token", true)
        .texts("tokenizer.ggml.tokens", {"a", "b", "c"})
        .tensor({"token_embd.weight", {64, 3}, 3, 64 / 32 * 20 * 3})
        .tensor({"output_norm.weight", {64}, 0, 256})
        .tensor({"blk.0.attn_q.weight", {64, 64}, 1, 8192});
    return file;
}

} // namespace exo::model::gguf::tests
