// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/card.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace exo::model::gguf {
namespace {

// Far above any model there is, far below what could overflow a product of them.
constexpr std::uint64_t layers_max = 65'536;
constexpr std::uint64_t heads_max = 1u << 16;
constexpr std::uint64_t head_size_max = 1u << 16;
constexpr std::uint64_t width_max = 1u << 28;
constexpr std::uint64_t context_max = 1u << 30;
constexpr std::uint64_t kv_element_bytes = 2; // f16

// general.file_type; empty where ggml has removed the type.
constexpr std::array<std::string_view, 42> file_types{
    "F32",   "F16",     "Q4_0",   "Q4_1",   "",       "",        "",       "Q8_0",   "Q5_0",
    "Q5_1",  "Q2_K",    "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S",  "Q4_K_M", "Q5_K_S", "Q5_K_M",
    "Q6_K",  "IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",
    "IQ3_M", "IQ2_S",   "IQ2_M",  "IQ4_XS", "IQ1_M",  "BF16",    "",       "",       "",
    "TQ1_0", "TQ2_0",   "MXFP4",  "NVFP4",  "Q1_0",   "Q2_0",
};
constexpr std::uint64_t file_type_guessed = 1024; // A flag: the converter was not sure.

// No rank could take a part of their layers, or llama.cpp cannot follow the cut: all others that
// run do in tensor mode (docs/architectures.md; architectures_test compares).
constexpr std::array<std::string_view, 8> no_tensor_split{
    "bitnet",
    "gemma3n",
    "grok",
    "mamba",
    "mamba2",
    "rwkv6",
    "rwkv7",
    "t5",
};

// These make vectors of texts, not answers.
constexpr std::array<std::string_view, 12> embedding_architectures{
    "bert",
    "modern-bert",
    "nomic-bert",
    "nomic-bert-moe",
    "neo-bert",
    "jina-bert-v2",
    "jina-bert-v3",
    "eurobert",
    "t5encoder",
    "gemma-embedding",
    "llama-embed",
    "clip",
};

template <std::size_t N>
bool contains(std::array<std::string_view, N> const& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// Figures of "<architecture>.<key>", which some architectures give once a layer.
class Figures {
public:
    Figures(Header const& header, std::string architecture)
        : header_(header)
        , architecture_(std::move(architecture)) {}

    [[nodiscard]] std::string key(std::string_view name) const {
        return fmt::format("{}.{}", architecture_, name);
    }

    [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name) const {
        return find_unsigned(header_, key(name));
    }

    // One figure a layer; empty when the key is absent. An array of another length is of no use.
    [[nodiscard]] std::vector<std::uint64_t>
    per_layer(std::string_view name, std::uint64_t layers) const {
        if (auto const one = find(name)) {
            return std::vector<std::uint64_t>(layers, *one);
        }
        std::vector<std::uint64_t> figures;
        auto const* array = find_array(header_, key(name));
        if (array != nullptr && array->integers.size() == layers) {
            for (auto const figure : array->integers) {
                figures.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(figure, 0)));
            }
        }
        return figures;
    }

private:
    Header const& header_;
    std::string architecture_;
};

std::uint64_t largest(std::vector<std::uint64_t> const& figures) {
    return figures.empty() ? 0 : *std::max_element(figures.begin(), figures.end());
}

// What a token takes in the KV cache of all layers. Layers without attention have no KV heads;
// sliding windows and shared layers take less than is counted here.
std::uint64_t kv_bytes_of(
    Figures const& figures, std::vector<std::uint64_t> const& kv_heads, std::uint64_t head_size
) {
    std::uint64_t const key_size = figures.find("attention.key_length").value_or(head_size);
    std::uint64_t const value_size = figures.find("attention.value_length").value_or(key_size);
    std::uint64_t const interval =
        std::max<std::uint64_t>(figures.find("full_attention_interval").value_or(1), 1);
    std::uint64_t heads = 0;
    for (std::uint64_t layer = 0; layer < kv_heads.size(); ++layer) {
        heads += (layer + 1) % interval == 0 ? kv_heads[layer] : 0;
    }
    return heads * (std::min(key_size, head_size_max) + std::min(value_size, head_size_max)) *
           kv_element_bytes;
}

std::uint64_t vocabulary_of(Header const& header, Figures const& figures) {
    if (auto const* tokens = find_array(header, "tokenizer.ggml.tokens")) {
        return tokens->count;
    }
    if (auto const size = figures.find("vocab_size")) {
        return *size;
    }
    for (auto const& tensor : header.tensors) {
        if (tensor.name == "token_embd.weight") {
            return tensor.dimensions[1];
        }
    }
    return 0;
}

std::string quantization_of(Header const& header, FileName const& name) {
    auto const type = find_unsigned(header, "general.file_type");
    if (type) {
        std::uint64_t const plain = *type & ~file_type_guessed;
        if (plain < file_types.size() && !file_types[plain].empty()) {
            return std::string(file_types[plain]);
        }
    }
    return name.quantization;
}

Error absurd(std::string const& key, std::uint64_t value) {
    return Error(Errc::corrupt, fmt::format("absurd: {} is {}", key, value));
}

bool is_quantization(std::string_view text) {
    static constexpr std::array<std::string_view, 8> whole{
        "F16", "F32", "FP16", "FP32", "BF16", "MXFP4", "MXFP4_MOE", "NVFP4"
    };
    if (text.starts_with("UD-") || text.starts_with("I1-")) {
        text.remove_prefix(3);
    }
    if (contains(whole, text)) {
        return true;
    }
    if (text.starts_with("IQ") || text.starts_with("TQ")) {
        text.remove_prefix(1);
    }
    if (text.size() < 2 || text.size() > 8 || text[0] != 'Q' || text[1] < '1' || text[1] > '8') {
        return false;
    }
    auto const is_word = [](char c) {
        return c == '_' || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    return text.size() == 2 ||
           (text[2] == '_' && std::all_of(text.begin() + 3, text.end(), is_word));
}

std::string to_upper(std::string_view text) {
    std::string upper(text);
    for (char& c : upper) {
        if (c >= 'a' && c <= 'z') {
            c = static_cast<char>(c - 'a' + 'A');
        }
    }
    return upper;
}

std::string_view without_extension(std::string_view name) {
    constexpr std::string_view extension = ".gguf";
    bool const has = name.size() > extension.size() &&
                     to_lower(name.substr(name.size() - extension.size())) == extension;
    return has ? name.substr(0, name.size() - extension.size()) : name;
}

std::optional<std::uint32_t> five_digits(std::string_view text) {
    std::uint32_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    bool const ok = error == std::errc() && end == text.data() + text.size() && text.size() == 5;
    return ok ? std::optional(number) : std::nullopt;
}

// The figures that must be there and make sense.
Result<> read_shape(Header const& header, Figures const& figures, ModelCard& card) {
    std::uint64_t const layers = figures.find("block_count").value_or(0);
    std::uint64_t const width = figures.find("embedding_length").value_or(0);
    for (auto const& [key, value, most] :
         {std::tuple{"block_count", layers, layers_max},
          std::tuple{"embedding_length", width, width_max}}) {
        if (value == 0) {
            return Error(Errc::corrupt, fmt::format("it lacks {}", figures.key(key)));
        }
        if (value > most) {
            return absurd(figures.key(key), value);
        }
    }
    auto const heads = figures.per_layer("attention.head_count", layers);
    auto kv_heads = figures.per_layer("attention.head_count_kv", layers);
    if (kv_heads.empty()) {
        kv_heads = heads;
    }
    if (largest(heads) > heads_max || largest(kv_heads) > heads_max) {
        return absurd(
            figures.key("attention.head_count"), std::max(largest(heads), largest(kv_heads))
        );
    }
    std::uint64_t const vocabulary = vocabulary_of(header, figures);
    std::uint64_t const context = figures.find("context_length").value_or(0);
    if (vocabulary > width_max) {
        return absurd("the size of the vocabulary", vocabulary);
    }
    if (context > context_max) {
        return absurd(figures.key("context_length"), context);
    }
    card.n_layers = static_cast<std::uint32_t>(layers);
    card.hidden_size = static_cast<std::uint32_t>(width);
    card.num_attention_heads = static_cast<std::uint32_t>(largest(heads));
    card.num_key_value_heads = static_cast<std::uint32_t>(largest(kv_heads));
    card.vocabulary_size = static_cast<std::uint32_t>(vocabulary);
    card.context_length = static_cast<std::uint32_t>(context);
    std::uint64_t const head_size = width / std::max<std::uint64_t>(largest(heads), 1);
    card.kv_bytes_per_token = kv_bytes_of(figures, kv_heads, head_size);
    return {};
}

} // namespace

Content content_of(Header const& header) {
    auto const* type = find_string(header, "general.type");
    auto const* architecture = find_string(header, "general.architecture");
    if ((type != nullptr && *type == "mmproj") ||
        (architecture != nullptr && *architecture == "clip")) {
        return Content::projector;
    }
    if (type != nullptr && *type == "adapter") {
        return Content::adapter;
    }
    bool const other = type != nullptr && *type != "model";
    return other ? Content::other : Content::model;
}

std::optional<Split> split_of(Header const& header) {
    auto const count = find_unsigned(header, "split.count");
    if (!count || *count <= 1) {
        return std::nullopt;
    }
    return Split{
        .number = find_unsigned(header, "split.no").value_or(0),
        .count = *count,
        .tensors_count = find_unsigned(header, "split.tensors.count").value_or(0)
    };
}

Result<ModelCard>
card_from_gguf(Header const& header, std::uint64_t tensor_bytes, std::string_view file_name) {
    auto const* architecture = find_string(header, "general.architecture");
    if (architecture == nullptr || architecture->empty()) {
        return Error(Errc::corrupt, "it lacks general.architecture, so it is no model");
    }
    auto const name = parse_file_name(file_name);
    ModelCard card;
    card.architecture = *architecture;
    EXO_TRY(read_shape(header, Figures(header, *architecture), card));
    auto const* family = find_string(header, "general.basename");
    auto const* full_name = find_string(header, "general.name");
    bool const embeds = contains(embedding_architectures, *architecture);
    card.storage_size.in_bytes = tensor_bytes;
    card.family = family != nullptr ? *family : *architecture;
    card.name = full_name != nullptr && !full_name->empty() ? *full_name : name.stem;
    card.quantization = quantization_of(header, name);
    card.supports_tensor = !embeds && !contains(no_tensor_split, *architecture);
    if (embeds) {
        card.tasks = {"TextEmbedding"};
    }
    return card;
}

FileName parse_file_name(std::string_view file_name) {
    auto const part = parse_part_name(file_name);
    std::string const stem = part ? part->base : std::string(without_extension(file_name));
    std::string const upper = to_upper(stem);
    for (std::size_t i = 1; i + 1 < upper.size(); ++i) {
        bool const separator = upper[i] == '.' || upper[i] == '-' || upper[i] == '_';
        if (separator && is_quantization(std::string_view(upper).substr(i + 1))) {
            return {.stem = stem.substr(0, i), .quantization = upper.substr(i + 1)};
        }
    }
    return {.stem = stem, .quantization = ""};
}

std::optional<PartName> parse_part_name(std::string_view file_name) {
    constexpr std::string_view shape = "-00001-of-00003";
    auto const stem = without_extension(file_name);
    if (stem.size() <= shape.size()) {
        return std::nullopt;
    }
    auto const tail = stem.substr(stem.size() - shape.size());
    auto const number = five_digits(tail.substr(1, 5));
    auto const count = five_digits(tail.substr(10));
    if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !number || !count || *number < 1 ||
        *number > *count) {
        return std::nullopt;
    }
    return PartName{
        .base = std::string(stem.substr(0, stem.size() - shape.size())),
        .number = *number,
        .count = *count
    };
}

} // namespace exo::model::gguf
