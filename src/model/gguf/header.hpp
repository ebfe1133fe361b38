// SPDX-License-Identifier: Apache-2.0
//
// The header of a GGUF file (versions 2 and 3): metadata and where each tensor lies. Pure: bytes
// in, values out; whoever reads the file brings a prefix of it. The bytes come from anywhere, so
// every count, length and product is checked against `Limits` and the size of the file before
// anything is allocated for it.
//
// Format: ggml's docs/gguf.md; what llama.cpp refuses (gguf.cpp) is refused here, by name.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "model/gguf/tensor_type.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace exo::model::gguf {

enum class ValueType : std::uint32_t {
    uint8 = 0,
    int8 = 1,
    uint16 = 2,
    int16 = 3,
    uint32 = 4,
    int32 = 5,
    float32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    uint64 = 10,
    int64 = 11,
    float64 = 12,
};

// Of a long array (the vocabulary) only the count is kept; of a short one of integers or booleans
// (one figure a layer) the elements too.
struct Array {
    ValueType element_type = ValueType::uint8;
    std::uint64_t count = 0;
    std::vector<std::int64_t> integers;

    bool operator==(Array const&) const = default;
};

// Integers of every width are widened.
using Value = std::variant<bool, std::uint64_t, std::int64_t, double, std::string, Array>;

struct TensorInfo {
    std::string name;
    std::array<std::uint64_t, 4> dimensions{1, 1, 1, 1};
    std::uint32_t type = 0;   // Index into tensor_types.
    std::uint64_t offset = 0; // From the start of the data section.
    std::uint64_t bytes = 0;

    bool operator==(TensorInfo const&) const = default;
};

struct Header {
    std::uint32_t version = 3;
    std::map<std::string, Value> metadata;
    std::vector<TensorInfo> tensors; // In the order of the file.
    std::uint64_t alignment = 32;
    std::uint64_t data_offset = 0;  // Where the data section starts in the file.
    std::uint64_t tensor_bytes = 0; // Sum over tensors, without padding.
    std::uint64_t file_bytes = 0;   // The least size of the whole file: the end of the last tensor.

    bool operator==(Header const&) const = default;
};

// The reasons: no known model comes near, and a header within them fits in memory many times.
struct Limits {
    std::uint64_t metadata_max = 65'536;
    std::uint64_t tensors_max = 1'000'000;
    std::uint64_t string_bytes_max = 16u << 20;  // A chat template has up to 100 KiB.
    std::uint64_t header_bytes_max = 256u << 20; // A vocabulary of 260,000 takes 10 MiB.
    std::uint64_t kept_elements_max = 4096;      // Per-layer arrays.
};

// The prefix ends before the header does: at least `bytes` of the file are needed. (The caller
// reads more than that, for example twice what it has, so that the work stays linear.)
struct NeedMore {
    std::uint64_t bytes = 0;
};

using Parsed = std::variant<Header, NeedMore>;

// `prefix` is the first bytes of a file of `file_bytes`. The whole file as prefix never gives
// NeedMore. Errors: corrupt (not GGUF, truncated, contradictory) and unsupported (version, byte
// order, tensor type); the text says what, where and with which numbers.
[[nodiscard]] Result<Parsed>
parse_header(BytesView prefix, std::uint64_t file_bytes, Limits const& limits = {});

// That a file of `file_bytes` holds all tensors of its header: one that was cut short would crash
// a reader that maps it. Error: corrupt, naming the first tensor that is not all there.
[[nodiscard]] Result<> check_complete(Header const& header, std::uint64_t file_bytes);

// Metadata by key; nothing when it is absent or of another kind.
[[nodiscard]] std::optional<std::uint64_t>
find_unsigned(Header const& header, std::string const& key);
[[nodiscard]] std::string const* find_string(Header const& header, std::string const& key);
[[nodiscard]] Array const* find_array(Header const& header, std::string const& key);

} // namespace exo::model::gguf
