// SPDX-License-Identifier: Apache-2.0
#include "engine/load/rehearsal.hpp"

#include <llama-cpp.h>

#include <algorithm>
#include <set>
#include <string>

namespace exo::engine {
namespace {

// Enough tokens for the graph of a prompt, then one for that of an answer.
constexpr std::int32_t prompt_tokens = 40;

// Follows what is computed by the host from weights in host memory (token embeddings) to the ranks
// that use it.
class Tracer {
public:
    Tracer(Cluster const& cluster, Rehearsal& rehearsal)
        : cluster_(cluster)
        , rehearsal_(rehearsal) {}

    static bool on_node(ggml_tensor* node, bool /*ask*/, void* self) {
        static_cast<Tracer*>(self)->note(node);
        return false; // No need to stop here.
    }

    // A device continues with what the host made of a device's results. Results reach the host of
    // rank 0 alone.
    [[nodiscard]] bool returns_from_host() const { return returns_from_host_; }

    // Every tensor of the model is over all ranks: tensor mode.
    [[nodiscard]] bool is_over_all_ranks() const { return is_over_all_ranks_; }

    // Of the graph's last node, which is its result.
    [[nodiscard]] std::int64_t result_width() const { return result_width_; }

private:
    static bool is_host(ggml_tensor const* tensor) {
        auto const* owner = tensor->view_src != nullptr ? tensor->view_src : tensor;
        return owner->buffer != nullptr && ggml_backend_buffer_is_host(owner->buffer);
    }

    static bool is_host_weight(ggml_tensor const* tensor) {
        auto const* owner = tensor->view_src != nullptr ? tensor->view_src : tensor;
        return is_host(tensor) &&
               ggml_backend_buffer_get_usage(owner->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    }

    // A copy that ggml's scheduler made for another device is named "<device>#<name>#<number>".
    static bool is_copy(ggml_tensor const* tensor) {
        std::string_view const name(tensor->name);
        return name.find('#') != name.rfind('#');
    }

    static std::string original_name(ggml_tensor const* tensor) {
        std::string const name(tensor->name);
        auto const first = name.find('#');
        auto const last = name.rfind('#');
        return first != last ? name.substr(first + 1, last - first - 1) : name;
    }

    void note(ggml_tensor const* node) {
        auto const rank = cluster_.rank_of(node);
        bool const on_host = !rank && is_host(node);
        bool tainted = false;
        bool after_device = false;
        for (auto const* source : node->src) {
            if (source == nullptr) {
                continue;
            }
            auto const name = original_name(source);
            tainted = tainted || tainted_.contains(name) || (!rank && is_host_weight(source));
            after_device = after_device || after_device_.contains(name) ||
                           (on_host && is_host(source) && is_copy(source));
        }
        if (on_host) {
            note_on_host(node, tainted, after_device);
        } else {
            is_over_all_ranks_ = is_over_all_ranks_ || !rank;
            returns_from_host_ = returns_from_host_ || (after_device && rank != 0u);
            for (std::size_t i = 0; tainted && i < rehearsal_.needs_host_weights.size(); ++i) {
                if (!rank || *rank == i) { // A tensor over all ranks has none of its own.
                    rehearsal_.needs_host_weights[i] = true;
                }
            }
        }
        result_width_ = node->ne[0];
        std::string line = std::string(ggml_op_name(node->op)) + ' ' + node->name + ' ' +
                           ggml_type_name(node->type) + ' ' +
                           (rank            ? std::to_string(*rank)
                            : is_host(node) ? "host"
                                            : "all");
        for (auto const extent : node->ne) {
            line += ' ' + std::to_string(extent);
        }
        append(rehearsal_.trace, as_bytes(line + '\n'));
    }

    void note_on_host(ggml_tensor const* node, bool tainted, bool after_device) {
        if (tainted) {
            tainted_.insert(node->name);
        }
        if (after_device) {
            after_device_.insert(node->name);
        }
        if (tainted && after_device) { // The end of the graph, which is computed for rank 0.
            rehearsal_.needs_host_weights[0] = true;
        }
    }

    Cluster const& cluster_;
    Rehearsal& rehearsal_;
    std::set<std::string> tainted_;      // Computed by the host from weights.
    std::set<std::string> after_device_; // Computed by the host from results of a device.
    bool returns_from_host_ = false;
    bool is_over_all_ranks_ = false;
    std::int64_t result_width_ = 0;
};

// Why exo has no use for a model that llama.cpp may well run.
Result<void> check_kind(llama_model const* model) {
    if (llama_model_has_encoder(model) || !llama_model_has_decoder(model)) {
        return Error(
            Errc::unsupported, "this model has an encoder; exo runs models that are a decoder alone"
        );
    }
    if (llama_model_is_diffusion(model)) {
        return Error(
            Errc::unsupported,
            "this model writes by diffusion, a whole text at a time; exo runs models that write "
            "token by token"
        );
    }
    return {};
}

Error makes_embeddings() {
    return {
        Errc::unsupported,
        "this model makes embeddings, not text; exo runs models that write token by token"
    };
}

Error refused(std::string const& what, LogCapture& log) {
    auto const reason = log.take_errors();
    return {Errc::unsupported, "llama.cpp cannot " + what + (reason.empty() ? "" : ": " + reason)};
}

Result<void> decode(llama_context* context, std::int32_t count, std::int32_t start) {
    auto const* vocabulary = llama_model_get_vocab(llama_get_model(context));
    std::vector<llama_token> tokens;
    std::vector<llama_pos> positions;
    for (std::int32_t i = 0; i < count; ++i) {
        tokens.push_back((start + i) % std::max(1, llama_vocab_n_tokens(vocabulary)));
        positions.push_back(start + i);
    }
    auto batch = llama_batch_get_one(tokens.data(), count);
    batch.pos = positions.data();
    if (int const code = llama_decode(context, batch); code != 0) {
        return Error(
            Errc::unsupported,
            "decode " + std::to_string(count) + " tokens (code " + std::to_string(code) + ")"
        );
    }
    llama_synchronize(context);
    return {};
}

} // namespace

Result<Rehearsal> rehearse(
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params parameters,
    LogCapture& log
) {
    EXO_TRY(check_kind(model));
    Rehearsal rehearsal;
    rehearsal.needs_host_weights.assign(ranks, false);
    Tracer tracer(cluster, rehearsal);
    parameters.cb_eval = Tracer::on_node;
    parameters.cb_eval_user_data = &tracer;
    cluster.set_rehearsal(true);
    llama_context_ptr const context(llama_init_from_model(model, parameters));
    if (!context) {
        return refused("make a context for this model in this mode", log);
    }
    if (llama_get_memory(context.get()) == nullptr) { // It keeps nothing of earlier tokens.
        return makes_embeddings();
    }
    rehearsal.context_length = llama_n_ctx(context.get());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        rehearsal.use.push_back(cluster.use(rank));
    }
    auto const reductions_before = cluster.reductions();
    for (auto const& [count, start] : {std::pair(prompt_tokens, 0), std::pair(1, prompt_tokens)}) {
        if (auto done = decode(context.get(), count, start); !done) {
            return refused(done.error().text(), log);
        }
    }
    cluster.set_rehearsal(false);
    if (tracer.result_width() != llama_vocab_n_tokens(llama_model_get_vocab(model))) {
        return makes_embeddings();
    }
    if (tracer.is_over_all_ranks() && cluster.reductions() == reductions_before) {
        return Error(
            Errc::unsupported,
            "no layer of this model can be cut by width: every rank would hold and compute all of "
            "them; place it in pipeline mode"
        );
    }
    if (tracer.returns_from_host() && ranks > 1) {
        return Error(
            Errc::unsupported,
            "this model's graph has steps on the host between those of the devices, so its ranks "
            "would depend on results that only rank 0 gets; place it on one node"
        );
    }
    if (auto health = cluster.health(); !health) {
        return health.error();
    }
    return rehearsal;
}

} // namespace exo::engine
