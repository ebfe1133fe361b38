// SPDX-License-Identifier: Apache-2.0
#include "engine/load/loader.hpp"

#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "engine/load/sequence_limit.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace exo::engine {
namespace {

// llama.cpp rounds the context up to a multiple of it, but not what depends on it.
constexpr std::uint32_t context_min = 256;

// BLAKE2b elsewhere hashes for enmity; here ranks of one owner compare what they are about to do.
std::uint64_t fnv1a(BytesView bytes) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (auto const byte : bytes) {
        hash = (hash ^ byte) * 0x100000001b3;
    }
    return hash;
}

Result<void> check_ranks(LoadOptions const& options, std::uint32_t layers) {
    bool const pipeline = options.sharding == model::Sharding::pipeline;
    auto const most = pipeline ? pipeline_ranks_max : tensor_ranks_max;
    if (options.ranks == 0 || options.ranks > most) {
        return Error(
            Errc::invalid_argument,
            fmt::format(
                "{} ranks in {} mode: llama.cpp can use 1 to {}",
                options.ranks,
                pipeline ? "pipeline" : "tensor",
                most
            )
        );
    }
    if (pipeline && options.ranks > layers) {
        return Error(
            Errc::invalid_argument,
            fmt::format("{} ranks for a model of {} layers", options.ranks, layers)
        );
    }
    return {};
}

Result<std::vector<std::uint64_t>>
shares_by_rank(LoadOptions const& options, std::uint32_t layers) {
    bool const pipeline = options.sharding == model::Sharding::pipeline;
    auto shares = options.shares;
    if (shares.empty()) {
        for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
            auto const extra = rank < layers % options.ranks ? 1u : 0u;
            shares.push_back(pipeline ? layers / options.ranks + extra : 1);
        }
    }
    if (shares.size() != options.ranks || std::ranges::count(shares, 0u) > 0) {
        return Error(
            Errc::invalid_argument,
            fmt::format(
                "{} shares for {} ranks: each needs one above 0", shares.size(), options.ranks
            )
        );
    }
    auto const sum = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
    if (pipeline && sum != layers) {
        return Error(
            Errc::invalid_argument,
            fmt::format("the ranks' shares are {} layers, the model has {}", sum, layers)
        );
    }
    return shares;
}

// llama.cpp's proportions, in the order of its devices. The last device also has the output layer,
// which llama.cpp counts as one more.
std::vector<float>
proportions(Cluster const& cluster, std::vector<std::uint64_t> const& shares, bool pipeline) {
    std::vector<float> list(std::max<std::size_t>(llama_max_devices(), shares.size()), 0.0F);
    auto const order = cluster.ranks_in_order();
    for (std::size_t i = 0; i < order.size(); ++i) {
        list[i] = static_cast<float>(shares[order[i]]);
    }
    if (pipeline) {
        list[order.size() - 1] += 1.0F;
    }
    return list;
}

// Receives llama.cpp's tensors one after the other and hands each its place in the file.
class TensorSetter {
public:
    TensorSetter(ModelFiles& files, Cluster& cluster, Outline& outline)
        : files_(files)
        , cluster_(cluster)
        , outline_(outline) {}

    static void on_tensor(ggml_tensor* tensor, void* self) {
        static_cast<TensorSetter*>(self)->set(tensor);
    }

    [[nodiscard]] Result<void> result() const {
        return error_ ? Result<void>(*error_) : Result<void>();
    }

private:
    void set(ggml_tensor* tensor) {
        if (error_) {
            return;
        }
        std::string const name(ggml_get_name(tensor));
        auto const* entry = files_.find(name);
        if (entry == nullptr || entry->type != tensor->type ||
            !std::ranges::equal(entry->shape, tensor->ne)) {
            error_ = Error(
                Errc::corrupt,
                fmt::format(
                    "{}: llama.cpp wants tensor {} with another type or shape than the file has",
                    files_.path(0),
                    name
                )
            );
            return;
        }
        if (ggml_backend_buffer_is_host(tensor->buffer)) {
            set_host(tensor, name, *entry);
        } else {
            set_device(tensor, name, *entry);
        }
    }

    // Which ranks need these is only known after the rehearsal.
    void set_host(ggml_tensor* tensor, std::string const& name, TensorEntry const& entry) {
        WeightRead const read{.from = entry.place, .to = tensor->data, .bytes = entry.bytes};
        outline_.host_reads.push_back({name, {read}});
        outline_.host_ranges.push_back({entry.place, entry.bytes});
        outline_.host_bytes += entry.bytes;
    }

    void set_device(ggml_tensor* tensor, std::string const& name, TensorEntry const& entry) {
        // A bias that is added to a sum over ranks is divided by their number: by llama.cpp, which
        // looks at the bytes.
        if (ggml_backend_buffer_is_meta(tensor->buffer) && name.ends_with(".bias")) {
            if (auto result = files_.make_resident(name, entry); !result) {
                error_ = result.error();
                return;
            }
        }
        files_.set_current(FileSource::Tensor{entry.place, entry.bytes});
        ggml_backend_tensor_set(tensor, files_.address(entry.place), 0, entry.bytes);
        files_.set_current(std::nullopt);
        if (auto reads = cluster_.take_reads(); !reads.empty()) {
            outline_.reads.push_back({name, std::move(reads)});
        }
    }

    ModelFiles& files_;
    Cluster& cluster_;
    Outline& outline_;
    std::optional<Error> error_;
};

llama_context_params context_parameters(LoadOptions const& options, ModelFiles const& files) {
    auto parameters = llama_context_default_params();
    auto const own = files.context_length();
    auto const otherwise =
        own == 0 ? options.context_default_max : std::min(own, options.context_default_max);
    auto const wish = options.context_length != 0 ? options.context_length : otherwise;
    parameters.n_ctx = std::max(wish, context_min);
    parameters.n_batch = options.step_tokens_max;
    parameters.n_ubatch = std::min(options.micro_batch, options.step_tokens_max);
    auto const type = options.cache_type == model::CacheType::q8_0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    parameters.type_k = parameters.type_v = type;
    parameters.n_threads = parameters.n_threads_batch =
        static_cast<std::int32_t>(options.compute.threads);
    parameters.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED; // Tensor mode demands it.
    parameters.kv_unified = true; // One pool of cells: a lone sequence may use all of them.
    parameters.op_offload = false;
    return parameters;
}

Result<void> load_header(
    LoadOptions const& options, std::vector<std::uint64_t> const& shares, Outline& outline
) {
    bool const layers = options.sharding == model::Sharding::pipeline || options.ranks == 1;
    auto devices = outline.cluster->devices();
    devices.push_back(nullptr);
    auto const split = proportions(*outline.cluster, shares, layers);
    auto parameters = llama_model_default_params();
    parameters.devices = devices.data();
    parameters.tensor_split = split.data();
    parameters.n_gpu_layers = -1; // All.
    parameters.split_mode = layers ? LLAMA_SPLIT_MODE_LAYER : LLAMA_SPLIT_MODE_TENSOR;
    parameters.lazy_mode = LLAMA_LAZY_MODE_OFF;
    parameters.load_mtp = false;
    std::vector<char const*> paths;
    for (std::size_t i = 0; i < outline.files->count(); ++i) {
        paths.push_back(outline.files->path(i).c_str());
    }
    TensorSetter setter(*outline.files, *outline.cluster, outline);
    outline.cluster->set_source(outline.files.get());
    outline.model.reset(llama_model_load_from_splits_user(
        paths.data(), paths.size(), TensorSetter::on_tensor, &setter, parameters
    ));
    outline.cluster->set_source(nullptr);
    EXO_TRY(outline.files->unchanged()); // A file that was replaced gives other errors, too.
    EXO_TRY(setter.result());
    EXO_TRY(outline.cluster->health());
    if (!outline.model) {
        return Error(
            Errc::unsupported,
            fmt::format(
                "llama.cpp cannot load {} (architecture {}) in {} mode: {}",
                outline.files->path(0),
                outline.files->architecture(),
                layers ? "pipeline" : "tensor",
                outline.log->take_errors()
            )
        );
    }
    return {};
}

// All ranks must be about to run the same graphs, cut in the same way.
Result<void> compare_traces(BytesView trace, collective::Group& group) {
    auto const hash = fnv1a(trace);
    std::array<std::uint8_t, sizeof hash> own{};
    for (std::size_t i = 0; i < own.size(); ++i) {
        own[i] = static_cast<std::uint8_t>(hash >> (8 * i));
    }
    Bytes all(own.size() * group.size());
    EXO_TRY(group.all_gather(own, all));
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
        if (!std::equal(own.begin(), own.end(), all.begin() + rank * own.size())) {
            return Error(
                Errc::conflict,
                fmt::format(
                    "ranks {} and {} would run different graphs of this model: their builds or "
                    "their files differ",
                    group.rank(),
                    rank
                )
            );
        }
    }
    return {};
}

// The other ranks wait for this one: they get the reason, too.
Error failed(Error error, collective::Group& group) {
    group.fail(error);
    return group.size() == 1
               ? error
               : Error(error.code(), fmt::format("rank {}: {}", group.rank(), error.text()));
}

Result<Outline> make_outline(LoadOptions const& options, collective::Group* group) {
    Outline outline;
    outline.log = std::make_unique<LogCapture>();
    auto files = ModelFiles::open(options.model_paths, options.read_at);
    if (!files) {
        return files.error();
    }
    outline.files = std::move(*files);
    auto const layers = outline.files->layer_count();
    EXO_TRY(check_ranks(options, layers));
    auto const shares = shares_by_rank(options, layers);
    if (!shares) {
        return shares.error();
    }
    Cluster::Options cluster{
        .ranks = options.ranks,
        .group = group,
        .rank_0_last = options.sharding == model::Sharding::pipeline,
    };
    if (group != nullptr) {
        auto compute = make_local_compute(options.compute);
        if (!compute) {
            return compute.error();
        }
        cluster.compute = std::move(*compute);
    }
    outline.cluster = std::make_unique<Cluster>(std::move(cluster));
    EXO_TRY(load_header(options, *shares, outline));
    outline.parameters = context_parameters(options, *outline.files);
    auto const sequences = sequence_limit(
        outline.model.get(),
        *outline.cluster,
        options.ranks,
        outline.parameters,
        options.parallel,
        *outline.log
    );
    if (!sequences) {
        return sequences.error();
    }
    outline.parameters.n_seq_max = *sequences;
    auto rehearsal = rehearse(
        outline.model.get(), *outline.cluster, options.ranks, outline.parameters, *outline.log
    );
    if (!rehearsal) {
        return rehearsal.error();
    }
    outline.rehearsal = std::move(*rehearsal);
    return outline;
}

Result<LoadedModel> finish(
    Outline outline,
    collective::Group& group,
    std::function<void(std::uint32_t layers)> const& on_progress
) {
    EXO_TRY(compare_traces(outline.rehearsal.trace, group));
    // The host's first: what a device wants too is copied from there.
    std::vector<TensorReads> reads;
    if (outline.rehearsal.needs_host_weights[group.rank()]) {
        reads = std::move(outline.host_reads);
    }
    std::ranges::move(outline.reads, std::back_inserter(reads));
    auto const& use = outline.rehearsal.use[group.rank()];
    EXO_TRY(outline.cluster->place_weights(use.cache_bytes + use.compute_bytes));
    auto const layers = outline.files->layer_count();
    EXO_TRY(read_weights(
        *outline.files,
        reads,
        {.on_progress =
             [&](std::uint64_t done, std::uint64_t all) {
                 on_progress(
                     done == all ? layers : static_cast<std::uint32_t>(done * layers / all)
                 );
             },
         .check = [&] { return group.health(); },
         .landed = [compute = outline.cluster->compute()](WeightRead const& read
                   ) { return compute->landed(read); }}
    ));
    EXO_TRY(outline.files->unchanged());
    log::info("load", "rank {}: {} read", group.rank(), format_size(outline.files->bytes_read()));
    outline.files.reset(); // With the bytes that llama.cpp looked at on the way.
    LoadedModel loaded;
    loaded.log = std::move(outline.log);
    loaded.cluster = std::move(outline.cluster);
    loaded.model = std::move(outline.model);
    loaded.context.reset(llama_init_from_model(loaded.model.get(), outline.parameters));
    if (!loaded.context) {
        return Error(
            Errc::unsupported, "llama.cpp cannot make a context: " + loaded.log->take_errors()
        );
    }
    EXO_TRY(loaded.cluster->health());
    log::info("engine", "computes with {}", loaded.cluster->compute()->describe());
    if (auto* threads = loaded.cluster->compute()->threads()) {
        llama_attach_threadpool(loaded.context.get(), threads, threads);
    }
    return loaded;
}

} // namespace

Result<Outline> outline_model(LoadOptions const& options, collective::Group* group) {
    auto made = make_outline(options, group);
    if (!made && group != nullptr) {
        return failed(made.error(), *group);
    }
    return made;
}

Result<LoadedModel> finish_model(
    Outline outline,
    collective::Group& group,
    std::function<void(std::uint32_t layers)> const& on_progress
) {
    auto made = finish(std::move(outline), group, on_progress);
    if (!made) {
        return failed(made.error(), group);
    }
    return made;
}

} // namespace exo::engine
