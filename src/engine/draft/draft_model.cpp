// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/draft_model.hpp"

#include "base/assert.hpp"
#include "base/log.hpp"
#include "engine/cluster_device/backend_function.hpp"
#include "engine/draft/common_beginning.hpp"
#include "engine/draft/vocabulary.hpp"
#include "engine/load/log_capture.hpp"
#include "engine/load/model_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace exo::engine {
namespace {

std::vector<std::string_view> words_of(llama_vocab const* vocabulary) {
    std::vector<std::string_view> words;
    for (std::int32_t i = 0; i < llama_vocab_n_tokens(vocabulary); ++i) {
        words.emplace_back(llama_vocab_get_text(vocabulary, i));
    }
    return words;
}

template <class Function>
Function* cpu_function(char const* name) {
    auto* const device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    return backend_function<Function>(device, name);
}

Error refusal(std::string const& why) {
    return {Errc::unsupported, "the draft model cannot draft for this model: " + why};
}

Result<llama_model_ptr> load_on_cpu(std::vector<std::string> const& paths) {
    LogCapture log;
    // It says what is wrong with a file better than llama.cpp does.
    if (auto const files = ModelFiles::open(paths); !files) {
        return Error(files.error().code(), "draft model: " + files.error().text());
    }
    std::vector<char const*> names;
    for (auto const& path : paths) {
        names.push_back(path.c_str());
    }
    ggml_backend_dev_t no_devices = nullptr; // The list ends with null: it is empty.
    auto parameters = llama_model_default_params();
    parameters.devices = &no_devices;
    parameters.n_gpu_layers = 0;
    llama_model_ptr model(llama_model_load_from_splits(names.data(), names.size(), parameters));
    if (!model) {
        return Error(Errc::unsupported, "draft model: " + log.take_errors());
    }
    return model;
}

} // namespace

Result<std::unique_ptr<DraftModel>>
DraftModel::load(DraftModelOptions const& options, llama_vocab const* target) {
    auto model = load_on_cpu(options.paths);
    if (!model) {
        return model.error();
    }
    if (llama_model_is_recurrent(model->get()) || llama_model_is_hybrid(model->get())) {
        return refusal("its memory is recurrent, so it cannot take back what was rejected");
    }
    std::unique_ptr<DraftModel> made(new DraftModel);
    made->vocabulary_ = llama_model_get_vocab(model->get());
    if (llama_vocab_type(made->vocabulary_) != llama_vocab_type(target)) {
        return refusal("it has another kind of tokenizer");
    }
    auto const difference = vocabulary_difference(words_of(target), words_of(made->vocabulary_));
    if (difference) {
        return refusal(*difference);
    }
    made->words_ = std::min(llama_vocab_n_tokens(target), llama_vocab_n_tokens(made->vocabulary_));
    made->model_ = std::move(*model);
    EXO_TRY(made->make_context(options));
    EXO_TRY(made->use_threads(options.threads));
    return made;
}

Result<void> DraftModel::make_context(DraftModelOptions const& options) {
    LogCapture log;
    auto const trained = static_cast<std::uint32_t>(llama_model_n_ctx_train(model_.get()));
    context_length_ = std::min(options.context_length, trained);
    auto parameters = llama_context_default_params();
    parameters.n_ctx = context_length_;
    parameters.n_batch = draft_catch_up_most;
    parameters.n_ubatch = draft_catch_up_most;
    parameters.n_seq_max = draft_places;
    parameters.kv_unified = true;
    parameters.swa_full = true; // So that any part of a sequence can be taken back.
    parameters.n_threads = static_cast<std::int32_t>(options.threads);
    parameters.n_threads_batch = parameters.n_threads;
    context_.reset(llama_init_from_model(model_.get(), parameters));
    if (!context_) {
        return Error(Errc::unsupported, "draft model: " + log.take_errors());
    }
    return {};
}

// Without a pool, ggml starts its threads anew for each token.
Result<void> DraftModel::use_threads(std::uint32_t count) {
    if (count <= 1) {
        return {};
    }
    auto* const make_pool = cpu_function<decltype(ggml_threadpool_new)>("ggml_threadpool_new");
    if (make_pool == nullptr) {
        return Error(Errc::unsupported, "ggml's CPU backend makes no thread pools");
    }
    auto parameters = ggml_threadpool_params_default(static_cast<int>(count));
    parameters.poll = 0; // The model's own threads have the cores between drafts.
    threads_ = make_pool(&parameters);
    llama_attach_threadpool(context_.get(), threads_, threads_);
    return {};
}

DraftModel::~DraftModel() {
    context_.reset();
    if (threads_ != nullptr) {
        cpu_function<decltype(ggml_threadpool_free)>("ggml_threadpool_free")(threads_);
    }
}

std::vector<std::int32_t>
DraftModel::propose(std::uint32_t slot, std::span<std::int32_t const> tokens, std::uint32_t most) {
    EXO_ASSERT(!tokens.empty());
    std::vector<std::int32_t> draft;
    if (failed_ || tokens.size() + most > context_length_) {
        return draft;
    }
    auto& place = place_of(slot, tokens);
    // The last token is always computed, for its logits.
    keep(place, std::min<std::size_t>(common_beginning(place.tokens, tokens), tokens.size() - 1));
    auto const rest = tokens.subspan(place.tokens.size());
    if (!can_read(rest)) {
        return draft;
    }
    if (rest.size() > draft_catch_up_most) {
        (void)decode(place, rest.first(draft_catch_up_most));
        return draft;
    }
    bool decoded = decode(place, rest);
    while (decoded && draft.size() < most) {
        auto const next = guess();
        if (!next) {
            break;
        }
        draft.push_back(*next);
        if (llama_vocab_is_eog(vocabulary_, *next)) {
            break;
        }
        decoded = draft.size() < most && decode(place, std::span(&draft.back(), 1));
    }
    return draft;
}

// The slot's own, else one without a sequence, of these the one that has read most of it, else the
// least recently used.
DraftModel::Place& DraftModel::place_of(std::uint32_t slot, std::span<std::int32_t const> tokens) {
    auto const worth = [&](Place const& place) {
        bool const free = !place.slot;
        auto const read = free ? common_beginning(place.tokens, tokens) : 0u;
        return std::tuple(place.slot == slot, free, read, proposals_ - place.used);
    };
    auto& best = *std::ranges::max_element(places_, {}, worth);
    best.slot = slot;
    best.used = ++proposals_;
    return best;
}

llama_seq_id DraftModel::sequence_of(Place const& place) const {
    return static_cast<llama_seq_id>(&place - places_.data());
}

// False for words of the model's padding that the draft model lacks.
bool DraftModel::can_read(std::span<std::int32_t const> tokens) const {
    return std::ranges::all_of(tokens, [&](std::int32_t token) {
        return token < llama_vocab_n_tokens(vocabulary_);
    });
}

void DraftModel::forget(std::uint32_t slot) {
    for (auto& place : places_) {
        if (place.slot == slot) {
            place.slot.reset();
        }
    }
}

void DraftModel::keep(Place& place, std::size_t length) {
    if (length < place.tokens.size()) {
        llama_memory_seq_rm(
            llama_get_memory(context_.get()), sequence_of(place), static_cast<llama_pos>(length), -1
        );
        place.tokens.resize(length);
    }
}

bool DraftModel::decode(Place& place, std::span<std::int32_t const> tokens) {
    auto batch =
        llama_batch_init(static_cast<std::int32_t>(tokens.size()), /*embd=*/0, /*n_seq_max=*/1);
    for (auto const token : tokens) {
        auto const i = batch.n_tokens++;
        batch.token[i] = token;
        batch.pos[i] = static_cast<llama_pos>(place.tokens.size());
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = sequence_of(place);
        batch.logits[i] = batch.n_tokens == static_cast<std::int32_t>(tokens.size()) ? 1 : 0;
        place.tokens.push_back(token);
    }
    int const code = llama_decode(context_.get(), batch);
    llama_batch_free(batch);
    if (code == 0) {
        return true;
    }
    // Without room (1) all begin anew: its cells are fewer than the model's, for it shares none
    // between sequences.
    llama_memory_clear(llama_get_memory(context_.get()), /*data=*/false);
    places_ = {};
    if (code != 1) {
        failed_ = true;
        log::warning("engine", "the draft model failed with {}: it drafts no more", code);
    }
    return false;
}

// The likeliest token, if it is likely enough.
std::optional<std::int32_t> DraftModel::guess() const {
    std::span const logits(
        llama_get_logits_ith(context_.get(), -1), static_cast<std::size_t>(words_)
    );
    auto const best = std::ranges::max_element(logits);
    float sum = 0;
    for (auto const logit : logits) {
        sum += std::exp(logit - *best);
    }
    if (1 / sum < draft_confidence_min) {
        return std::nullopt;
    }
    return static_cast<std::int32_t>(best - logits.begin());
}

} // namespace exo::engine
