// SPDX-License-Identifier: Apache-2.0
#include "small_model.hpp"

#include "engine/load/log_capture.hpp"

#include <ggml-cpp.h>
#include <gguf.h>
#include <llama-arch.h>
#include <llama-cpp.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <variant>

namespace exo::architectures {
namespace {

using Number = std::uint32_t;
using Numbers = std::vector<Number>;
using Value = std::variant<
    Number,
    float,
    bool,
    std::string,
    Numbers,
    std::vector<std::uint64_t>,
    std::vector<float>>;
using Header = std::map<std::string, Value>; // Without the architecture in front of the key.

struct Sizes {
    Number width = 256;
    Number heads = 2;
    Number feed_forward = 384;
    Number layers = 2;
    Number kv_heads = 0; // 0: as many as heads.
    Number vocabulary = 128;

    [[nodiscard]] Number head_width() const { return width / heads; }
};

constexpr Number context_length = 256;
// Latent attention (MLA): what a head's key and value are made from and compressed to.
constexpr Number latent_width = 512;
constexpr Number rotary_width = 64;

Sizes sizes_of(SmallModel const& model) {
    static Sizes const latent{.width = 128, .heads = 1};
    static std::map<std::string, Sizes> const special{
        {"llama4", {.layers = 4}}, // Every fourth layer has no rotary embedding.
        {"gemma3n", {.width = 64, .heads = 1, .layers = 22}},
        {"deepseek4", {.width = 512, .heads = 8, .feed_forward = 1024, .layers = 4}},
        {"step35", {.width = 160}}, // A head of 80: no power of two.
        {"laguna", {.width = 160}},
        {"qwen3", {.heads = 4, .kv_heads = 1}},
        {"muse-glimmer", {.heads = 4, .kv_heads = 2}},
        {"afmoe", {.heads = 4, .kv_heads = 2}},
        {"deepseek2", latent},
        {"deepseek32", latent},
        {"glm-dsa", latent},
        {"dots3note", latent},
        {"kimi-linear", latent},
        {"bailingmoe3", latent},
        {"kimi-k3", latent},
        {"glm5-next", latent},
        {"mistral4", latent},
        {"hy_v4", latent},
        {"nemotron_h", {.layers = 3}},
        {"nemotron_h_moe", {.layers = 3}},
        {"qwen3tts", {.vocabulary = 3072}}, // As many as its codec's tokens.
        {"gemma4", {.width = 128, .layers = 5}},
        {"chameleon", {.vocabulary = 10240}}, // Tokens 4 to 8195 are pieces of images.
        {"hrm_text", {.layers = 6}},          // One layer a stack, in 2 x (2 + 1) cycles.
    };
    auto const found = special.find(model.architecture);
    auto sizes = found != special.end() ? found->second : Sizes{};
    if (model.variant == Variant::one_kv_head) {
        sizes.heads = 4;
        sizes.kv_heads = 1;
    }
    return sizes;
}

Header common_header(Sizes const& sizes) {
    auto const quarter = sizes.head_width() / 4;
    auto const kv_heads = sizes.kv_heads != 0 ? sizes.kv_heads : sizes.heads;
    return {
        {"vocab_size", sizes.vocabulary},
        {"context_length", context_length},
        {"embedding_length", sizes.width},
        {"features_length", sizes.width},
        {"block_count", sizes.layers},
        {"leading_dense_block_count", Number{1}},
        {"feed_forward_length", sizes.feed_forward},
        {"use_parallel_residual", false},
        {"logit_scale", 1.0F},
        {"residual_scale", 3.5565588F},
        {"full_attention_interval", Number{2}},
        {"attention.head_count", sizes.heads},
        {"attention.head_count_kv", kv_heads},
        {"attention.max_alibi_bias", 8.0F},
        {"attention.clamp_kqv", 1.0F},
        {"attention.layer_norm_epsilon", 1e-5F},
        {"attention.layer_norm_rms_epsilon", 1e-5F},
        {"attention.group_norm_epsilon", 1e-5F},
        {"attention.group_norm_groups", Number{8}},
        {"attention.q_lora_rank", latent_width},
        {"attention.kv_lora_rank", latent_width},
        {"attention.relative_buckets_count", Number{8}},
        {"attention.sliding_window", context_length / 8},
        {"attention.sliding_window_pattern", Number{2}},
        {"attention.indexer.head_count", Number{64}},
        {"attention.indexer.key_length", Number{128}},
        // All cells: which of equals are the best would depend on rounding.
        {"attention.indexer.top_k", Number{1 << 17}},
        {"attention.indexer.block_size", Number{4}},
        {"attention.indexer.kpool", Number{4}},
        {"attention.indexer.kpool_select_tail", true},
        {"attention.indexer.local_blocks", Number{1}},
        {"rope.dimension_sections", Numbers(4, quarter)},
        {"time_mix_extra_dim", Number{64}},
        {"time_decay_extra_dim", Number{128}},
        {"wkv.head_size", sizes.head_width()},
        {"shortconv.l_cache", Number{3}},
        {"ssm.inner_size", 2 * sizes.width},
        {"ssm.conv_kernel", Number{4}},
        {"ssm.state_size", Number{128}},
        {"ssm.time_step_rank", sizes.heads},
        {"ssm.group_count", Number{2}},
        {"kda.head_dim", Number{128}},
        {"kda.safe_gate", true},
        {"kda.gate_lower_bound", -5.0F},
        {"attn_res.block_size", Number{12}},
        {"activation.situ_beta", 4.0F},
        {"activation.situ_linear_beta", 25.0F},
    };
}

void add(Header& header, Header values) {
    for (auto& [key, value] : values) {
        header.insert_or_assign(key, std::move(value));
    }
}

// ---- what some architectures need besides

using Feature = void (*)(Header&, Sizes const&);

// `odd` in every second layer, `even` in the others.
Numbers alternating(Sizes const& sizes, Number even, Number odd) {
    Numbers values;
    for (Number layer = 0; layer < sizes.layers; ++layer) {
        values.push_back(layer % 2 == 0 ? even : odd);
    }
    return values;
}

// The second layer has no attention, but a recurrent state.
Numbers heads_but_in_layer_1(Sizes const& sizes) {
    Numbers heads(sizes.layers, sizes.heads);
    heads.at(1) = 0;
    return heads;
}

void recurrent_layer(Header& header, Sizes const& sizes) {
    add(header,
        {{"attention.head_count", heads_but_in_layer_1(sizes)},
         {"attention.head_count_kv", heads_but_in_layer_1(sizes)}});
}

void recurrent_layer_by_kv_heads(Header& header, Sizes const& sizes) {
    add(header, {{"attention.head_count_kv", heads_but_in_layer_1(sizes)}});
}

void feed_forward_in_last_layers(Header& header, Sizes const& sizes) {
    Numbers widths(sizes.layers, sizes.feed_forward);
    widths.at(0) = widths.at(1) = 0;
    add(header, {{"feed_forward_length", widths}});
}

void alternating_window(Header& header, Sizes const& sizes) {
    add(header, {{"attention.sliding_window_pattern", alternating(sizes, 0, 1)}});
}

void latent_attention(Header& header, Sizes const&) {
    add(header,
        {{"attention.key_length", latent_width + rotary_width},
         {"attention.value_length", latent_width},
         {"attention.key_length_mla", Number{192}},
         {"attention.value_length_mla", Number{128}},
         {"rope.dimension_count", rotary_width}});
}

void latent_attention_without_rotation(Header& header, Sizes const&) {
    add(header, {{"attention.key_length", latent_width}, {"rope.dimension_count", Number{0}}});
}

void latent_attention_in_window(Header& header, Sizes const&) {
    add(header,
        {{"attention.kv_lora_rank_swa", latent_width},
         {"attention.key_length_swa", latent_width + rotary_width},
         {"attention.value_length_swa", latent_width},
         {"attention.key_length_mla_swa", Number{192}},
         {"attention.value_length_mla_swa", Number{128}},
         {"rope.freq_base_swa", 10000.0F}});
}

void indexer_in_even_layers(Header& header, Sizes const& sizes) {
    add(header, {{"attention.indexer.types", alternating(sizes, 1, 0)}});
}

void indexer_by_head(Header& header, Sizes const& sizes) {
    add(header,
        {{"attention.indexer.head_count", sizes.heads}, {"rope.dimension_count", rotary_width}});
}

void hyper_connections(Header& header, Sizes const&) {
    add(header,
        {{"hyper_connection.count", Number{4}},
         {"hyper_connection.sinkhorn_iterations", Number{2}},
         {"hyper_connection.epsilon", 1e-6F},
         {"hyper_connection.magnitude", 2.0F},
         {"hyper_connection.low_rank", Number{8}}});
}

// Embeddings of n-grams, added in the first layer.
void embeddings_by_layer(Header& header, Sizes const& sizes) {
    constexpr Number ngram = 3;
    constexpr Number heads_by_ngram = 2;
    constexpr Number heads = (ngram - 1) * heads_by_ngram;
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t head = 0; head < heads; ++head) {
        offsets.push_back(head * sizes.vocabulary);
    }
    add(header,
        {{"attention.compress_ratios", Numbers(sizes.layers, 4)},
         {"ple.layers", Numbers{0}},
         {"ple.ngram_size", ngram},
         {"ple.heads_per_ngram", heads_by_ngram},
         {"ple.conv_kernel", Number{4}},
         {"ple.eos_token_id", Number{0}},
         {"embedding_length_per_layer_input", sizes.width / heads},
         {"ple.layer_multipliers", std::vector<std::uint64_t>{1, 3, 5}},
         {"ple.head_offsets", offsets},
         {"ple.head_vocab_sizes", std::vector<std::uint64_t>(heads, sizes.vocabulary)}});
}

void narrow_state(Header& header, Sizes const&) {
    add(header, {{"ssm.inner_size", Number{256}}});
}

void indexer_as_wide_as_a_head(Header& header, Sizes const& sizes) {
    add(header, {{"attention.indexer.key_length", sizes.head_width()}});
}

void ungrouped_state(Header& header, Sizes const&) {
    add(header, {{"ssm.group_count", Number{0}}});
}

void deepseek4(Header& header, Sizes const& sizes) {
    add(header,
        {{"attention.head_count_kv", Number{1}},
         {"attention.key_length", sizes.head_width()},
         {"attention.value_length", sizes.head_width()},
         {"rope.dimension_count", sizes.head_width() / 2},
         {"attention.q_lora_rank", Number{64}},
         {"attention.output_group_count", Number{8}},
         {"attention.output_lora_rank", Number{32}},
         {"attention.compress_ratios", Numbers{0, 0, 4, 128}},
         {"attention.compress_rope_freq_base", 160000.0F},
         {"hash_layer_count", Number{0}},
         {"swiglu_clamp_exp", 10.0F},
         {"expert_weights_scale", 1.0F},
         {"expert_weights_norm", true},
         {"expert_gating_func", Number{4}}});
}

void bailing3(Header& header, Sizes const&) {
    header.erase("kda.safe_gate");
    add(header,
        {{"rope.dimension_sections", Numbers{8, 12, 12, 0}},
         {"swiglu_clamp_exp", std::vector<float>{0.0F, 4.0F}},
         {"swiglu_clamp_shexp", std::vector<float>{0.0F, 5.0F}}});
}

void hunyuan4(Header& header, Sizes const&) {
    add(header,
        {{"swiglu_clamp_exp", 10.0F}, {"expert_weights_scale", 1.0F}, {"expert_weights_norm", true}}
    );
}

void stacks(Header& header, Sizes const&) {
    add(header,
        {{"hrm.layers_per_stack", Number{1}},
         {"hrm.h_cycles", Number{2}},
         {"hrm.l_cycles", Number{2}}});
}

void clamped_experts(Header& header, Sizes const&) {
    add(header, {{"swiglu_clamp_exp", 7.0F}});
}

// The window is in all layers but every fifth.
void gemma4(Header& header, Sizes const& sizes) {
    Numbers pattern;
    for (Number layer = 0; layer < sizes.layers; ++layer) {
        pattern.push_back((layer + 1) % 5 == 0 ? 0 : 1);
    }
    add(header,
        {{"embedding_length_per_layer_input", sizes.width / 2},
         {"attention.shared_kv_layers", Number{0}},
         {"attention.key_length_swa", sizes.head_width()},
         {"attention.value_length_swa", sizes.head_width()},
         {"attention.sliding_window_pattern", pattern},
         {"rope.freq_base_swa", 10000.0F}});
}

void adapters(Header& header, Sizes const&) {
    add(header, {{"adapters.count", Number{1}}, {"adapters.lora_rank", Number{8}}});
}

void heads_of_192(Header& header, Sizes const&) {
    add(header,
        {{"attention.key_length", Number{192}},
         {"attention.value_length", Number{128}},
         {"rope.dimension_count", rotary_width}});
}

void rwkv7(Header& header, Sizes const&) {
    for (auto const* matrix : {"decay", "iclr", "value_residual_mix", "gate"}) {
        add(header, {{std::string("attention.") + matrix + "_lora_rank", Number{32}}});
    }
}

// RWKV in place of Qwen 2's attention: no second shift, in the feed-forward.
void one_token_shift(Header& header, Sizes const&) {
    add(header, {{"token_shift_count", Number{1}}});
}

std::vector<Feature> features_of(std::string const& architecture) {
    static std::map<std::string, std::vector<Feature>> const table{
        {"arwkv7", {rwkv7, one_token_shift}},
        {"bailingmoe3", {latent_attention, recurrent_layer, bailing3}},
        {"cohere2moe", {alternating_window}},
        {"deepseek2", {latent_attention}},
        {"deepseek32", {latent_attention}},
        {"deepseek4", {hyper_connections, deepseek4}},
        {"dots3note",
         {latent_attention, latent_attention_in_window, alternating_window, indexer_in_even_layers}
        },
        {"gemma4", {gemma4}},
        {"glm-dsa", {latent_attention}},
        {"glm5-next",
         {latent_attention,
          latent_attention_without_rotation,
          recurrent_layer_by_kv_heads,
          hyper_connections,
          embeddings_by_layer}},
        {"granite_swa", {alternating_window}},
        {"granitehybrid", {recurrent_layer}},
        {"graniteswitch", {adapters}},
        {"hrm_text", {stacks}},
        {"hy_v4", {latent_attention, hyper_connections, indexer_in_even_layers, hunyuan4}},
        {"jamba", {recurrent_layer}},
        {"kimi-k3", {latent_attention, recurrent_layer}},
        {"kimi-linear", {latent_attention, recurrent_layer}},
        {"lfm2", {recurrent_layer}},
        {"lfm2moe", {recurrent_layer}},
        {"maple", {alternating_window, clamped_experts}},
        {"mimo2", {alternating_window}},
        {"minimax-m3", {indexer_by_head}},
        {"mistral4", {latent_attention}},
        {"muse-glimmer", {alternating_window}},
        {"nemotron_h", {recurrent_layer, feed_forward_in_last_layers}},
        {"nemotron_h_moe", {recurrent_layer, feed_forward_in_last_layers}},
        {"plamo2", {recurrent_layer, ungrouped_state}},
        {"plm", {heads_of_192}},
        {"qwen35", {narrow_state}},
        {"qwen35moe", {narrow_state}},
        {"qwen3next", {narrow_state}},
        {"qwen4exp",
         {hyper_connections, embeddings_by_layer, narrow_state, indexer_as_wide_as_a_head}},
        {"rwkv6qwen2", {one_token_shift}},
        {"rwkv7", {rwkv7}},
        {"spark2_5", {alternating_window}},
        {"step35", {alternating_window}},
    };
    auto const found = table.find(architecture);
    return found != table.end() ? found->second : std::vector<Feature>{};
}

void add_experts(Header& header, Sizes const& sizes) {
    header.insert({
        {"expert_feed_forward_length", sizes.feed_forward},
        {"expert_shared_feed_forward_length", sizes.feed_forward / 2},
        {"expert_latent_length", sizes.feed_forward},
        {"interleave_moe_layer_step", Number{2}},
        {"expert_count", Number{2}},
        {"expert_used_count", Number{2}},
        {"expert_shared_count", Number{1}},
        {"expert_gating_func", Number{2}}, // Sigmoid.
        {"expert_group_scale", 1.0F},
        {"experts_per_group", Number{1}},
    });
}

// ---- the file

class Setter {
public:
    Setter(gguf_context* file, std::string key)
        : file_(file)
        , key_(std::move(key)) {}

    void operator()(Number value) const { gguf_set_val_u32(file_, key_.c_str(), value); }

    void operator()(float value) const { gguf_set_val_f32(file_, key_.c_str(), value); }

    void operator()(bool value) const { gguf_set_val_bool(file_, key_.c_str(), value); }

    void operator()(std::string const& value) const {
        gguf_set_val_str(file_, key_.c_str(), value.c_str());
    }

    void operator()(Numbers const& list) const { set(GGUF_TYPE_UINT32, list); }

    void operator()(std::vector<std::uint64_t> const& list) const { set(GGUF_TYPE_UINT64, list); }

    void operator()(std::vector<float> const& list) const { set(GGUF_TYPE_FLOAT32, list); }

private:
    template <typename T>
    void set(gguf_type type, std::vector<T> const& list) const {
        gguf_set_arr_data(file_, key_.c_str(), type, list.data(), list.size());
    }

    gguf_context* file_;
    std::string key_;
};

// llama.cpp's tokenizer for tests: any text becomes ids of pieces of it.
void set_tokenizer(gguf_context* file, Number vocabulary) {
    std::vector<std::string> names;
    std::vector<char const*> pointers;
    for (Number id = 0; id < vocabulary; ++id) {
        names.push_back("t" + std::to_string(id));
    }
    for (auto const& name : names) {
        pointers.push_back(name.c_str());
    }
    gguf_set_val_str(file, "tokenizer.ggml.model", "test");
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
    Setter(file, "tokenizer.ggml.scores")(std::vector<float>(vocabulary, 0.0F));
}

gguf_context_ptr make_header(SmallModel const& model) {
    auto const sizes = sizes_of(model);
    auto header = common_header(sizes);
    for (auto const feature : features_of(model.architecture)) {
        feature(header, sizes);
    }
    if (model.variant == Variant::experts) {
        add_experts(header, sizes);
    }
    gguf_context_ptr file(gguf_init_empty());
    gguf_set_val_str(file.get(), "general.architecture", model.architecture.c_str());
    for (auto const& [key, value] : header) {
        std::visit(Setter(file.get(), model.architecture + "." + key), value);
    }
    for (auto const* name : {"alpha_n", "alpha_p", "beta"}) { // Keys without an architecture.
        gguf_set_val_f32(file.get(), (std::string("xielu.") + name).c_str(), 1.0F);
    }
    gguf_set_val_f32(file.get(), "xielu.eps", 1e-7F);
    gguf_set_val_u32(file.get(), "tokenizer.ggml.token_type_count", 2);
    set_tokenizer(file.get(), sizes.vocabulary);
    return file;
}

// SplitMix64: the same numbers everywhere, unlike those of std::normal_distribution.
class Weights {
public:
    explicit Weights(std::string const& name) {
        for (char const letter : name) { // FNV-1a
            state_ = (state_ ^ static_cast<std::uint8_t>(letter)) * 0x100000001b3;
        }
    }

    // Close to normal, with a deviation of 0.1: a sum of four uniform numbers.
    float next() {
        constexpr float deviation_of_sum = 0.57735F; // The root of 4 / 12.
        float sum = -2.0F;
        auto const bits = next_bits();
        for (int shift = 0; shift < 64; shift += 16) {
            sum += static_cast<float>((bits >> shift) & 0xffff) / 65536.0F;
        }
        return 0.1F * sum / deviation_of_sum;
    }

private:
    std::uint64_t next_bits() {
        auto bits = state_ += 0x9e3779b97f4a7c15;
        bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
        bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
        return bits ^ (bits >> 31);
    }

    std::uint64_t state_ = 0xcbf29ce484222325;
};

// What llama.cpp asks for when it has no file to look into, and real files do not hold.
bool is_in_no_file(SmallModel const& model, std::string const& tensor) {
    return tensor.ends_with(".scale") || tensor.ends_with(".input_scale") || // Of 4-bit floats.
           tensor.ends_with(".act.scales") ||                                // Of MPT's AWQ.
           (model.architecture == "rwkv6qwen2" && tensor.find("time_mix_first") != std::string::npos
           ) ||
           (model.variant == Variant::tied_output && tensor == "output.weight");
}

// Fills what llama.cpp asks for, and remembers it for the file.
class Filler {
public:
    explicit Filler(std::string architecture)
        : architecture_(std::move(architecture)) {}

    static void on_tensor(ggml_tensor* tensor, void* self) {
        static_cast<Filler*>(self)->fill(tensor);
    }

    // In llama.cpp's order. One that is asked for twice (an embedding that is also the output) is
    // in a file once.
    [[nodiscard]] std::vector<ggml_tensor const*> const& tensors() const { return tensors_; }

private:
    [[nodiscard]] float shaped(float value, std::string const& name) const {
        if (name.find("ssm_a") != std::string::npos) {
            return -std::fabs(value); // The decay of a state: it would grow without bounds.
        }
        // A norm is followed by factors around 1: around 0, a layer would add next to nothing, and
        // a fault in it would not show.
        if (name.ends_with("norm.weight")) {
            // Gemma 4 leaves it to these to scale products of queries and keys. Attention that is
            // too sharp turns every rounding into another token.
            bool const keeps_calm =
                architecture_ == "gemma4" && name.ends_with("attn_k_norm.weight");
            return keeps_calm ? (value + 1.0F) / 8 : value + 1.0F;
        }
        return value;
    }

    void fill(ggml_tensor* tensor) {
        std::string const name(tensor->name);
        Weights weights(name);
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
        for (auto& value : values) {
            value = shaped(weights.next(), name);
        }
        if (tensor->type == GGML_TYPE_F32) {
            ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
        }
        if (names_.insert(name).second) {
            tensors_.push_back(tensor);
        }
    }

    std::string architecture_;
    std::set<std::string> names_;
    std::vector<ggml_tensor const*> tensors_;
};

// ---- the list

// Those that have a feed-forward of experts in any case, and those that may have one.
bool has_experts_only(std::string const& architecture) {
    static std::set<std::string> const names{
        "llama4",       "cohere2moe", "grok",          "qwen2moe",    "qwen3moe",     "qwen3next",
        "qwen3vlmoe",   "qwen35moe",  "qwen4exp",      "phimoe",      "dbrx",         "olmoe",
        "arctic",       "deepseek",   "deepseek2",     "deepseek32",  "dots3note",    "deepseek4",
        "glm4moe",      "glm-dsa",    "exaone-moe",    "bailingmoe",  "bailingmoe2",  "bailingmoe3",
        "dots1",        "afmoe",      "ernie4_5",      "hunyuan-moe", "hy_v3",        "hy_v4",
        "ernie4_5-moe", "gpt-oss",    "lfm2moe",       "llada-moe",   "smallthinker", "grovemoe",
        "minimax-01",   "minimax-m2", "minimax-m3",    "rnd1",        "paddleocr",    "mimo2",
        "kimi-linear",  "kimi-k3",    "glm5-next",     "step35",      "mistral4",     "mellum",
        "laguna",       "maple",      "deepseek2-ocr",
    };
    return names.contains(architecture);
}

bool may_have_experts(std::string const& architecture) {
    static std::set<std::string> const names{
        "llama",
        "refact",
        "minicpm",
        "granite",
        "granitemoe",
        "mistral3",
        "llama-embed",
        "nemotron_h_moe",
        "jamba",
        "granitehybrid",
        "nomic-bert-moe"
    };
    return names.contains(architecture);
}

bool may_have_one_kv_head(std::string const& architecture) {
    static std::set<std::string> const names{
        "llama",
        "qwen2",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma4",
        "phi3",
        "falcon",
        "starcoder",
        "starcoder2",
        "granite"
    };
    return names.contains(architecture);
}

bool may_have_tied_output(std::string const& architecture) {
    static std::set<std::string> const names{
        "llama", "qwen2", "qwen3", "gemma3", "granite", "cohere2", "bloom", "mpt"
    };
    return names.contains(architecture);
}

} // namespace

std::string to_string(Variant variant) {
    switch (variant) {
    case Variant::dense:
        return "dense";
    case Variant::experts:
        return "experts";
    case Variant::one_kv_head:
        return "one KV head";
    case Variant::tied_output:
        return "tied output";
    }
    return "";
}

std::vector<SmallModel> small_models() {
    std::vector<SmallModel> models;
    for (auto const architecture : llm_arch_all()) {
        if (architecture == LLM_ARCH_UNKNOWN) {
            continue;
        }
        std::string const name = llm_arch_name(architecture);
        if (!has_experts_only(name)) {
            models.push_back({name, Variant::dense});
        }
        if (has_experts_only(name) || may_have_experts(name)) {
            models.push_back({name, Variant::experts});
        }
        if (may_have_one_kv_head(name)) {
            models.push_back({name, Variant::one_kv_head});
        }
        if (may_have_tied_output(name)) {
            models.push_back({name, Variant::tied_output});
        }
    }
    return models;
}

Result<void> write_small_model(SmallModel const& model, std::string const& path) {
    engine::LogCapture log;
    auto const file = make_header(model);
    std::array<ggml_backend_dev_t, 1> no_devices{nullptr};
    auto parameters = llama_model_default_params();
    parameters.devices = no_devices.data();
    Filler filler(model.architecture);
    llama_model_ptr const made(
        llama_model_init_from_user(file.get(), Filler::on_tensor, &filler, parameters)
    );
    if (!made) {
        return Error(
            Errc::unsupported, "llama.cpp cannot build the small model: " + log.take_errors()
        );
    }
    for (auto const* tensor : filler.tensors()) {
        if (!is_in_no_file(model, tensor->name)) {
            gguf_add_tensor(file.get(), tensor);
        }
    }
    if (!gguf_write_to_file(file.get(), path.c_str(), /*only_meta=*/false)) {
        return Error(Errc::io, "cannot write " + path);
    }
    return {};
}

} // namespace exo::architectures
