// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/header.hpp"

#include "base/text.hpp"
#include "model/gguf/reader.hpp"

#include <fmt/format.h>

#include <bit>
#include <limits>
#include <set>
#include <string_view>

namespace exo::model::gguf {
namespace {

constexpr std::uint64_t name_bytes_max = 63;    // ggml keeps 64 with the final zero.
constexpr std::uint64_t key_bytes_max = 65'535; // docs/gguf.md
constexpr std::uint32_t dimensions_max = 4;
constexpr std::uint64_t alignment_max = 1u << 20;

// Of a scalar; 0 for strings, arrays and unknown types.
std::uint64_t scalar_bytes(ValueType type) {
    switch (type) {
    case ValueType::uint8:
    case ValueType::int8:
    case ValueType::boolean:
        return 1;
    case ValueType::uint16:
    case ValueType::int16:
        return 2;
    case ValueType::uint32:
    case ValueType::int32:
    case ValueType::float32:
        return 4;
    case ValueType::uint64:
    case ValueType::int64:
    case ValueType::float64:
        return 8;
    case ValueType::string:
    case ValueType::array:
        return 0;
    }
    return 0;
}

template <class Unsigned, class Kept, class As>
bool read_as(Reader& reader, Value& value, std::string_view what) {
    Unsigned raw{};
    if (!reader.read(raw, what)) {
        return false;
    }
    value = static_cast<Kept>(std::bit_cast<As>(raw));
    return true;
}

bool read_scalar(Reader& reader, ValueType type, Value& value, std::string_view what) {
    switch (type) {
    case ValueType::uint8:
        return read_as<std::uint8_t, std::uint64_t, std::uint8_t>(reader, value, what);
    case ValueType::int8:
        return read_as<std::uint8_t, std::int64_t, std::int8_t>(reader, value, what);
    case ValueType::uint16:
        return read_as<std::uint16_t, std::uint64_t, std::uint16_t>(reader, value, what);
    case ValueType::int16:
        return read_as<std::uint16_t, std::int64_t, std::int16_t>(reader, value, what);
    case ValueType::uint32:
        return read_as<std::uint32_t, std::uint64_t, std::uint32_t>(reader, value, what);
    case ValueType::int32:
        return read_as<std::uint32_t, std::int64_t, std::int32_t>(reader, value, what);
    case ValueType::float32:
        return read_as<std::uint32_t, double, float>(reader, value, what);
    case ValueType::uint64:
        return read_as<std::uint64_t, std::uint64_t, std::uint64_t>(reader, value, what);
    case ValueType::int64:
        return read_as<std::uint64_t, std::int64_t, std::int64_t>(reader, value, what);
    case ValueType::float64:
        return read_as<std::uint64_t, double, double>(reader, value, what);
    case ValueType::boolean: {
        std::uint8_t raw = 0;
        bool const ok = reader.read(raw, what);
        value = raw != 0;
        return ok;
    }
    case ValueType::string: {
        std::string text;
        bool const ok = reader.read_string(text, reader.limits().string_bytes_max, what);
        value = std::move(text);
        return ok;
    }
    case ValueType::array:
        break;
    }
    return reader.fail(Errc::corrupt, fmt::format("{} has no known type", what));
}

std::optional<std::int64_t> as_integer(Value const& value) {
    if (auto const* flag = std::get_if<bool>(&value)) {
        return *flag ? 1 : 0;
    }
    if (auto const* number = std::get_if<std::int64_t>(&value)) {
        return *number;
    }
    if (auto const* number = std::get_if<std::uint64_t>(&value)) {
        return static_cast<std::int64_t>(*number);
    }
    return std::nullopt;
}

bool read_elements(Reader& reader, Array& array, std::string_view what) {
    std::uint64_t const element_bytes = scalar_bytes(array.element_type);
    if (element_bytes == 0) {
        for (std::uint64_t i = 0; i < array.count; ++i) {
            if (!reader.skip_string(what)) {
                return false;
            }
        }
        return true;
    }
    bool const real =
        array.element_type == ValueType::float32 || array.element_type == ValueType::float64;
    if (real || array.count > reader.limits().kept_elements_max) {
        BytesView skipped;
        return reader.take(array.count * element_bytes, skipped, what);
    }
    for (std::uint64_t i = 0; i < array.count; ++i) {
        Value element;
        if (!read_scalar(reader, array.element_type, element, what)) {
            return false;
        }
        array.integers.push_back(as_integer(element).value_or(0));
    }
    return true;
}

bool read_array(Reader& reader, Value& value, std::string_view what) {
    std::uint32_t type = 0;
    Array array;
    if (!reader.read(type, what) || !reader.read(array.count, what)) {
        return false;
    }
    array.element_type = static_cast<ValueType>(type);
    bool const known = scalar_bytes(array.element_type) != 0;
    if (!known && array.element_type != ValueType::string) {
        return reader.fail(
            Errc::corrupt, fmt::format("{} is an array of the unknown type {}", what, type)
        );
    }
    // A string takes at least its length. This also bounds the product in read_elements().
    std::uint64_t const element_bytes = known ? scalar_bytes(array.element_type) : 8;
    if (array.count > reader.left_in_file() / element_bytes) {
        return reader.fail(
            Errc::corrupt,
            fmt::format(
                "truncated or absurd: {} has {} elements, but only {} bytes of the file follow",
                what,
                array.count,
                reader.left_in_file()
            )
        );
    }
    bool const ok = read_elements(reader, array, what);
    value = std::move(array);
    return ok;
}

bool read_metadata(Reader& reader, std::uint64_t count, Header& header) {
    for (std::uint64_t i = 0; i < count; ++i) {
        std::string key;
        std::uint32_t type = 0;
        if (!reader.read_string(key, key_bytes_max, fmt::format("metadata key {}", i))) {
            return false;
        }
        auto const what = fmt::format("metadata '{}'", utf8_prefix(key, 80));
        if (key.empty() || header.metadata.contains(key)) {
            return reader.fail(
                Errc::corrupt, what + (key.empty() ? " has no name" : " is there twice")
            );
        }
        if (!reader.read(type, what)) {
            return false;
        }
        Value value;
        bool const is_array = static_cast<ValueType>(type) == ValueType::array;
        bool const ok = is_array ? read_array(reader, value, what)
                                 : read_scalar(reader, static_cast<ValueType>(type), value, what);
        if (!ok) {
            return false;
        }
        header.metadata.emplace(std::move(key), std::move(value));
    }
    return true;
}

bool read_alignment(Reader& reader, Header& header) {
    auto const found = header.metadata.find("general.alignment");
    if (found == header.metadata.end()) {
        return true;
    }
    auto const* alignment = std::get_if<std::uint64_t>(&found->second);
    if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > alignment_max) {
        return reader.fail(Errc::corrupt, "general.alignment is no power of two");
    }
    header.alignment = *alignment;
    return true;
}

// The bytes of a tensor; nothing when the number does not fit.
std::optional<std::uint64_t> bytes_of(TensorInfo const& tensor, TensorType const& type) {
    constexpr auto number_max =
        static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t elements = 1;
    for (auto const dimension : tensor.dimensions) {
        if (dimension > number_max || (dimension != 0 && elements > number_max / dimension)) {
            return std::nullopt;
        }
        elements *= dimension;
    }
    std::uint64_t const blocks = elements / type.block_elements;
    if (blocks > number_max / type.block_bytes) {
        return std::nullopt;
    }
    return blocks * type.block_bytes;
}

bool check_tensor(Reader& reader, TensorInfo& tensor) {
    auto const what = fmt::format("tensor '{}'", tensor.name);
    if (tensor.type >= tensor_types.size() || tensor_types[tensor.type].block_elements == 0) {
        return reader.fail(
            Errc::unsupported, fmt::format("{} has the unknown type {}", what, tensor.type)
        );
    }
    auto const& type = tensor_types[tensor.type];
    if (tensor.dimensions[0] % type.block_elements != 0) {
        return reader.fail(
            Errc::corrupt,
            fmt::format(
                "{} has rows of {} elements, but {} has blocks of {}",
                what,
                tensor.dimensions[0],
                type.name,
                type.block_elements
            )
        );
    }
    auto const bytes = bytes_of(tensor, type);
    if (!bytes) {
        return reader.fail(Errc::corrupt, what + " is absurdly large");
    }
    tensor.bytes = *bytes;
    return true;
}

bool read_tensor(Reader& reader, std::uint64_t index, TensorInfo& tensor) {
    std::uint32_t dimensions = 0;
    if (!reader.read_string(
            tensor.name, name_bytes_max, fmt::format("the name of tensor {}", index)
        )) {
        return false;
    }
    auto const what = fmt::format("tensor '{}'", tensor.name);
    if (!reader.read(dimensions, what)) {
        return false;
    }
    if (dimensions > dimensions_max) {
        return reader.fail(
            Errc::corrupt,
            fmt::format("{} has {} dimensions, ggml knows {}", what, dimensions, dimensions_max)
        );
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) {
        if (!reader.read(tensor.dimensions[i], what)) {
            return false;
        }
    }
    return reader.read(tensor.type, what) && reader.read(tensor.offset, what) &&
           check_tensor(reader, tensor);
}

bool read_tensors(Reader& reader, std::uint64_t count, Header& header) {
    std::set<std::string> names;
    for (std::uint64_t i = 0; i < count; ++i) {
        TensorInfo tensor;
        if (!read_tensor(reader, i, tensor)) {
            return false;
        }
        if (!names.insert(tensor.name).second) {
            return reader.fail(
                Errc::corrupt, fmt::format("tensor '{}' is there twice", tensor.name)
            );
        }
        header.tensors.push_back(std::move(tensor));
    }
    return true;
}

// Tensors follow each other in the order of the header, each padded to the alignment. What lies
// otherwise llama.cpp would not open.
bool lay_out(Reader& reader, Header& header) {
    constexpr std::uint64_t file_max = std::uint64_t{1} << 62;
    auto const padded = [&](std::uint64_t bytes) {
        return (bytes + header.alignment - 1) / header.alignment * header.alignment;
    };
    header.data_offset = header.tensors.empty() ? reader.position() : padded(reader.position());
    header.file_bytes = header.data_offset;
    std::uint64_t expected = 0;
    for (auto const& tensor : header.tensors) {
        if (tensor.offset != expected) {
            return reader.fail(
                Errc::corrupt,
                fmt::format(
                    "tensor '{}' is at offset {}, expected {}", tensor.name, tensor.offset, expected
                )
            );
        }
        if (tensor.bytes > file_max - header.alignment ||
            expected > file_max - padded(tensor.bytes)) {
            return reader.fail(Errc::corrupt, "its tensors are absurdly large");
        }
        expected += padded(tensor.bytes);
        header.tensor_bytes += tensor.bytes;
        header.file_bytes = header.data_offset + tensor.offset + tensor.bytes;
    }
    return true;
}

// What the first bytes of a file that is not GGUF look like, for the person who put it there.
std::string describe(std::string_view start) {
    if (start.empty()) {
        return "it is empty";
    }
    if (start.starts_with("version https://git-lfs")) {
        return "it is a git-lfs text pointer; fetch the file itself (git lfs pull)";
    }
    if (start.starts_with("<") || to_lower(start.substr(0, 16)).find("html") != std::string::npos) {
        return "it looks like a web page, perhaps an error page in place of a download";
    }
    if (start.starts_with("PK")) {
        return "it looks like a zip archive or a PyTorch checkpoint";
    }
    if (start.starts_with("ggjt") || start.starts_with("tjgg") || start.starts_with("lmgg")) {
        return "it is in the old GGML format; convert it to GGUF";
    }
    if (start.size() > 8 && start[8] == '{') {
        return "it looks like safetensors; convert it to GGUF";
    }
    std::string hex = to_hex(as_bytes(start.substr(0, 4)));
    return fmt::format("it begins with the bytes {}", hex);
}

bool read_start(Reader& reader, BytesView prefix, Header& header) {
    static constexpr std::string_view magic = "GGUF";
    auto const start = as_text(prefix);
    auto const seen = start.substr(0, magic.size());
    if (reader.file_bytes() == 0 || seen != magic.substr(0, seen.size())) {
        return reader.fail(Errc::corrupt, "not a GGUF file: " + describe(start.substr(0, 64)));
    }
    BytesView skipped;
    if (!reader.take(magic.size(), skipped, "the magic") ||
        !reader.read(header.version, "the version")) {
        return false;
    }
    if ((header.version & 0xffff) == 0 && header.version != 0) {
        return reader.fail(
            Errc::unsupported,
            "it has the other byte order (big endian); convert it for this machine"
        );
    }
    if (header.version < 2 || header.version > 3) {
        return reader.fail(
            Errc::unsupported, fmt::format("GGUF version {}: exo reads 2 and 3", header.version)
        );
    }
    return true;
}

} // namespace

Result<Parsed> parse_header(BytesView prefix, std::uint64_t file_bytes, Limits const& limits) {
    prefix = prefix.first(std::min<std::uint64_t>(prefix.size(), file_bytes));
    Reader reader(prefix, file_bytes, limits);
    Header header;
    std::uint64_t tensors = 0;
    std::uint64_t metadata = 0;
    if (!read_start(reader, prefix, header) || !reader.read(tensors, "the number of tensors") ||
        !reader.read(metadata, "the number of metadata entries")) {
        return reader.failure();
    }
    if (tensors > limits.tensors_max || metadata > limits.metadata_max) {
        return Error(
            Errc::corrupt,
            fmt::format("absurd: it claims {} tensors and {} metadata entries", tensors, metadata)
        );
    }
    if (!read_metadata(reader, metadata, header) || !read_alignment(reader, header) ||
        !read_tensors(reader, tensors, header) || !lay_out(reader, header)) {
        return reader.failure();
    }
    return Parsed(std::move(header));
}

Result<> check_complete(Header const& header, std::uint64_t file_bytes) {
    for (auto const& tensor : header.tensors) {
        std::uint64_t const end = header.data_offset + tensor.offset + tensor.bytes;
        if (end > file_bytes) {
            return Error(
                Errc::corrupt,
                fmt::format(
                    "truncated: the file is {} bytes, tensor '{}' needs {} (all tensors: {})",
                    file_bytes,
                    tensor.name,
                    end,
                    header.file_bytes
                )
            );
        }
    }
    return {};
}

std::optional<std::uint64_t> find_unsigned(Header const& header, std::string const& key) {
    auto const found = header.metadata.find(key);
    if (found == header.metadata.end() || std::holds_alternative<bool>(found->second)) {
        return std::nullopt;
    }
    if (auto const* number = std::get_if<std::uint64_t>(&found->second)) {
        return *number;
    }
    auto const integer = as_integer(found->second);
    return integer && *integer >= 0 ? std::optional(static_cast<std::uint64_t>(*integer))
                                    : std::nullopt;
}

std::string const* find_string(Header const& header, std::string const& key) {
    auto const found = header.metadata.find(key);
    return found == header.metadata.end() ? nullptr : std::get_if<std::string>(&found->second);
}

Array const* find_array(Header const& header, std::string const& key) {
    auto const found = header.metadata.find(key);
    return found == header.metadata.end() ? nullptr : std::get_if<Array>(&found->second);
}

} // namespace exo::model::gguf
