// SPDX-License-Identifier: Apache-2.0
//
// The engine of one rank: a model spread over the ranks of a group, and the batch of requests that
// rank 0 runs on it. Every rank makes the same llama.cpp calls in the same order; rank 0 decides
// and says so in step plans (DESIGN.md section 6).
//
// One thread: all calls come from the thread that called load(). A failed call is final: the
// group's latch is set, and the runner ends.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collective/group.hpp"
#include "model/generation.hpp"
#include "model/instance.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace exo::engine {

struct EngineOptions {
    std::vector<std::string> model_paths; // The GGUF file, or its splits in order.
    model::Sharding sharding = model::Sharding::pipeline;
    // By rank; empty: even. Pipeline: layers, in all as many as the model has. The first layers are
    // rank 1's, then rank 2's ..., the last are rank 0's, so that logits are where sampling is.
    // Tensor: width in any unit.
    std::vector<std::uint64_t> shares;
    // Tokens of cache; 0: the model's own, up to context_default_max.
    std::uint32_t context_length = 0;
    std::uint32_t micro_batch = 0; // Tokens; 0: micro_batch_default().
    std::uint32_t threads = 0;     // 0: one a physical core.
    // What this rank computes with: "auto" (a GPU if there is one), "cpu", or a device by the name
    // that ggml lists it under. No other rank needs to know.
    std::string device = "auto";
    model::InstanceSettings settings;
    std::vector<std::string> draft_paths; // Of settings.draft_model; rank 0 only.
};

// Without a wish the cache is not made larger than this: it may cost more than the weights.
constexpr std::uint32_t context_default_max = 8192;
// What one step plan holds at most: the time until a cancelled request leaves the batch.
constexpr std::uint32_t step_tokens_max = 512;

// What one llama.cpp graph computes. Ranks of a pipeline overlap by micro-batches: the first has a
// new one while the last has the one before, so small ones are better, as long as each is worth its
// kernels; a rank is as fast at 64 as at 512 (bench/compare.py). Elsewhere a graph has as much as a
// step has: threads, and ranks in tensor mode, meet less often.
[[nodiscard]] constexpr std::uint32_t
micro_batch_default(model::Sharding sharding, std::uint32_t ranks) {
    return sharding == model::Sharding::pipeline && ranks > 1 ? 64 : step_tokens_max;
}

// How long a running answer waits for another one's prompt, when the settings do not say: longer
// than this a stream seems to have stopped.
constexpr std::uint32_t prompt_wait_ms_default = 200;
// Drafted in a step at most, when the settings do not say. The length adapts below it.
constexpr std::uint32_t draft_tokens_default = 8;
// Requests that wait for a place in the batch; more are refused as unavailable.
constexpr std::uint32_t waiting_max = 256;

// What ranks must have in common to run the same program: builds of exo and llama.cpp, our patches,
// the model's header, how it is cut, the parameters of the context.
struct Program {
    Bytes identity;    // To be hashed.
    std::string words; // The part that people can compare.
};

// Errors: those of the files, as load_engine's.
[[nodiscard]] Result<Program> describe_program(EngineOptions const& options);

// How much of this rank's part is there, as a number of the model's layers: rises, and ends at all.
struct LoadProgress {
    std::uint32_t layers_loaded = 0;
    std::uint32_t total_layers = 0;
};

struct MeasureOptions {
    std::uint32_t prompt_tokens = 0;
    std::uint32_t answer_tokens = 0; // Of each stream.
    std::uint32_t streams = 1;       // Answers in one batch.
};

struct Measurement {
    double prefill_tokens_per_second = 0;
    double decode_tokens_per_second = 0; // Of all streams.
};

using EventSink = std::function<void(model::TaskId const&, model::GenerationEvent)>;

class Engine {
public:
    virtual ~Engine() = default;

    // Rank 0 only -----------------------------------------------------------------------------

    // Takes a request into the queue. All that is said of it goes to `on_event`, which is called
    // from within submit(), cancel() and step(); exactly one terminal event ends it.
    virtual void submit(model::GenerationRequest request) = 0;

    // The task leaves the batch before the next step, without an event. Unknown tasks are ignored.
    virtual void cancel(model::TaskId const& task_id) = 0;

    // True when there is nothing to compute.
    [[nodiscard]] virtual bool idle() const = 0;

    // One decode on all ranks: admits, prefills, generates. REQUIRES: not idle().
    virtual Result<void> step() = 0;

    // Ends all requests with the error.
    virtual void abandon(Error const& error) = 0;

    // Tells the other ranks to return from follow().
    virtual Result<void> stop() = 0;

    // Runs a prompt, and then from an empty cache answers, of so many tokens, by step plans as
    // requests would: what llama-bench measures as pp and tg. The tokens are arbitrary. REQUIRES:
    // idle(), and at least one of each. Error: invalid_argument, when the context is too small.
    [[nodiscard]] virtual Result<Measurement> measure(MeasureOptions const& options) = 0;

    // The other ranks -------------------------------------------------------------------------

    // Obeys rank 0's step plans until stop() (success) or an error.
    virtual Result<void> follow() = 0;

    // All ranks -------------------------------------------------------------------------------

    // Runs a long and a short decode, so that the first request finds everything in place.
    virtual Result<void> warm_up() = 0;

    [[nodiscard]] virtual std::uint32_t context_length() const = 0;
};

// Reads this rank's part of the model. Collective: all ranks of `group` call it with the same
// options but threads, and it compares that they run the same program. `group` must outlive the
// engine. Errors: corrupt (not a GGUF file, truncated: names file, tensor, offset), unsupported
// (this model cannot be cut so, with the reason), invalid_argument (shares), conflict (a rank runs
// another program or has another file).
[[nodiscard]] Result<std::unique_ptr<Engine>> load_engine(
    EngineOptions const& options,
    collective::Group& group,
    std::function<void(LoadProgress)> const& on_progress,
    EventSink on_event
);

// Says as JSON whether the model can be placed so, and what each rank would need: see
// specs/engine.md, "The probe". Reads the header only.
[[nodiscard]] Result<std::string>
probe(EngineOptions const& options, std::uint32_t ranks, bool with_ranges);

// The JSON for a model that cannot.
[[nodiscard]] std::string probe_refusal(std::string const& reason);

// ggml ends the process when a model breaks its rules. The handler is called just before, with the
// reason; it may only do what is safe in the middle of anything. One per process: ggml's callback
// has no context.
using AbortHandler = void (*)(char const* reason);
void set_abort_handler(AbortHandler handler);

// What compute threads are worth: one each.
[[nodiscard]] std::uint32_t physical_cores();

} // namespace exo::engine
