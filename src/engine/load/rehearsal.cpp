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
    static std::string original_name(ggml_tensor const* tensor) {
        std::string const name(tensor->name);
        auto const first = name.find('#');
        auto const last = name.rfind('#');
        return first != last ? name.substr(first + 1, last - first - 1) : name;
    }

    void note(ggml_tensor const* node) {
        auto const rank = cluster_.rank_of(node);
        bool tainted = false;
        for (auto const* source : node->src) {
            if (source == nullptr) {
                continue;
            }
            tainted = tainted || tainted_.contains(original_name(source)) ||
                      (!rank && is_host_weight(source));
        }
        if (!rank && is_host(node)) {
            if (tainted) {
                tainted_.insert(node->name);
            }
        } else if (tainted) { // A tensor over all ranks has none of its own.
            for (std::size_t i = 0; i < rehearsal_.needs_host_weights.size(); ++i) {
                if (!rank || *rank == i) {
                    rehearsal_.needs_host_weights[i] = true;
                }
            }
        }
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

    Cluster const& cluster_;
    Rehearsal& rehearsal_;
    std::set<std::string> tainted_;
};

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
    if (llama_model_has_encoder(model) || !llama_model_has_decoder(model)) {
        return Error(Errc::unsupported, "models with an encoder are not supported");
    }
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
    rehearsal.context_length = llama_n_ctx(context.get());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        rehearsal.use.push_back(cluster.use(rank));
    }
    auto const reads_before = cluster.host_reads();
    for (auto const& [count, start] : {std::pair(prompt_tokens, 0), std::pair(1, prompt_tokens)}) {
        if (auto done = decode(context.get(), count, start); !done) {
            return refused(done.error().text(), log);
        }
    }
    cluster.set_rehearsal(false);
    if (cluster.host_reads() != reads_before && ranks > 1) {
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
