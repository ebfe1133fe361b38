// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/batch.hpp"

#include "base/assert.hpp"
#include "engine/draft/common_beginning.hpp"

#include <algorithm>
#include <utility>

namespace exo::engine {
namespace {

// Cells that must be free for each sequence when one is admitted: if the batch outgrew the cache in
// the very next step, the youngest would have come for nothing.
constexpr std::uint32_t headroom = 16;
// A sequence waits for an older one that is about to compute at least so many tokens for both.
constexpr std::uint32_t follow_min = 32;

// What can be found in the cache: one token is always computed, for its logits.
std::span<std::int32_t const> reusable_tokens(Sequence const& sequence) {
    return std::span(sequence.tokens).first(sequence.tokens.size() - 1);
}

} // namespace

Batch::Batch(PlanLimits const& limits, std::uint32_t parallel)
    : limits_(limits)
    , parallel_(parallel)
    , cache_(limits.sequences_max, limits.context_length) {
    EXO_ASSERT(parallel > 0 && parallel <= limits.sequences_max);
    EXO_ASSERT(parallel <= limits.micro_batch && limits.micro_batch <= limits.tokens_max);
}

SequenceId Batch::add(std::vector<std::int32_t> prompt) {
    EXO_ASSERT(!prompt.empty() && prompt.size() <= limits_.context_length);
    waiting_.push_back(std::make_unique<Sequence>());
    waiting_.back()->id = next_id_;
    waiting_.back()->tokens = std::move(prompt);
    return next_id_++;
}

void Batch::remove(SequenceId id) {
    auto const is_it = [&](SequencePtr const& sequence) { return sequence->id == id; };
    if (auto const found = std::ranges::find_if(running_, is_it); found != running_.end()) {
        if ((*found)->slot) {
            forget_drafts(**found);
            cache_.release(*(*found)->slot);
        }
        running_.erase(found);
        return;
    }
    std::erase_if(waiting_, is_it);
}

// What is remembered of a sequence that has ended is its text, which another one may go on with.
void Batch::forget_drafts(Sequence const& sequence) {
    auto const text = static_cast<std::uint32_t>(sequence.tokens.size()) - sequence.drafts;
    if (sequence.cached > text) {
        cache_.cut(*sequence.slot, text);
    }
}

Sequence& Batch::find(SequenceId id) const {
    auto const is_it = [&](SequencePtr const& sequence) { return sequence->id == id; };
    if (auto const found = std::ranges::find_if(running_, is_it); found != running_.end()) {
        return **found;
    }
    auto const found = std::ranges::find_if(waiting_, is_it);
    EXO_ASSERT(found != waiting_.end());
    return **found;
}

Step Batch::next(std::uint32_t prompt_tokens_max, CacheIndex::FirstPosition const& first_position) {
    EXO_ASSERT(!idle());
    admit(first_position);
    begin(first_position);
    make_step_fit();
    auto const chunks = choose(
        views(),
        {.step_tokens_max = limits_.tokens_max,
         .prompt_tokens_max = prompt_tokens_max,
         .micro_batch = limits_.micro_batch,
         .cells = cache_.cells_for_running()}
    );
    return compose(chunks);
}

// In order of arrival, as far as places and cells go. What will still be generated is not counted;
// if it does not fit, the youngest pauses.
void Batch::admit(CacheIndex::FirstPosition const& first_position) {
    while (!waiting_.empty() && running_.size() < parallel_ &&
           (running_.empty() || has_room_for(*waiting_.front(), first_position))) {
        running_.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
    }
}

bool Batch::has_room_for(Sequence const& next, CacheIndex::FirstPosition const& first_position)
    const {
    auto const hit = cache_.find(reusable_tokens(next), first_position);
    std::size_t needed = next.tokens.size() - hit.tokens + cache_.cells_to_gain(hit) + headroom;
    for (auto const& sequence : running_) {
        needed += sequence->pending() + headroom;
    }
    return needed <= cache_.cells_for_running();
}

// Sequences that have not begun take what the cache has of them, or wait for more.
void Batch::begin(CacheIndex::FirstPosition const& first_position) {
    for (std::size_t i = 0; i < running_.size(); ++i) {
        auto& sequence = *running_[i];
        if (sequence.slot) {
            continue;
        }
        auto const hit = cache_.find(reusable_tokens(sequence), first_position);
        if (follows_another(i, hit.tokens)) {
            continue;
        }
        sequence.slot = cache_.take(hit);
        sequence.cached = hit.tokens;
        if (!std::exchange(sequence.begun_before, true)) {
            sequence.reused = hit.tokens;
        }
    }
}

// True if an older sequence is going to compute a longer beginning than the cache has now. It does
// so in finite time, for the oldest prompt is in every step.
bool Batch::follows_another(std::size_t index, std::uint32_t reusable) const {
    if (!cache_.kind().cuttable) {
        return false;
    }
    auto const own = reusable_tokens(*running_[index]);
    return std::any_of(
        running_.begin(),
        running_.begin() + static_cast<std::ptrdiff_t>(index),
        [&](SequencePtr const& older) {
            return older->prefills() && common_beginning(older->tokens, own) >=
                                            std::max(older->cached, reusable) + follow_min;
        }
    );
}

// One more token for each sequence that generates, and its drafts, or else one token of a prompt:
// drafts give way first, then the youngest sequences.
void Batch::make_step_fit() {
    auto const fits = [&] {
        std::uint32_t needed = 0;
        for (auto const& sequence : running_) {
            needed += sequence->prefills() ? 0 : sequence->pending();
        }
        auto const room = std::min(cache_.cells_for_running(), limits_.micro_batch);
        return std::max(1u, needed) <= room;
    };
    for (auto it = running_.rbegin(); it != running_.rend() && !fits(); ++it) {
        drop_drafts(**it);
    }
    while (!fits()) {
        EXO_ASSERT(running_.size() > 1); // One alone fits: it ends where the context does.
        pause_youngest();
    }
}

void Batch::drop_drafts(Sequence& sequence) {
    sequence.tokens.resize(sequence.tokens.size() - sequence.drafts);
    sequence.drafts = 0;
}

void Batch::pause_youngest() {
    auto sequence = std::move(running_.back());
    running_.pop_back();
    drop_drafts(*sequence);
    if (sequence->slot) {
        cache_.release(*sequence->slot);
        sequence->slot.reset();
        sequence->cached = 0;
    }
    waiting_.push_front(std::move(sequence));
}

std::vector<SequenceView> Batch::views() const {
    std::vector<SequenceView> views;
    for (auto const& sequence : running_) {
        views.push_back({
            .cached = sequence->cached,
            .total = static_cast<std::uint32_t>(sequence->tokens.size()),
            .outputs = sequence->outputs(),
            .waits = !sequence->slot,
        });
    }
    return views;
}

// First all tokens without an output, then those with one: so all outputs are in the last
// micro-batch, those of a sequence side by side.
Step Batch::compose(std::vector<Chunk> const& chunks) {
    Step step;
    std::vector<PlanToken> wanted;
    std::uint32_t total = 0;
    for (auto const& chunk : chunks) {
        total += chunk.count;
    }
    EXO_ASSERT(total > 0);
    cache_.make_room(total);
    for (auto const& chunk : chunks) {
        auto& sequence = *running_[chunk.index];
        auto const tokens = std::span(sequence.tokens).subspan(sequence.cached, chunk.count);
        bool const complete = chunk.count == sequence.pending();
        auto const silent = complete ? chunk.count - sequence.outputs() : chunk.count;
        for (std::uint32_t i = 0; i < chunk.count; ++i) {
            (i < silent ? step.plan.tokens : wanted)
                .push_back({
                    .token = tokens[i],
                    .position = static_cast<std::int32_t>(sequence.cached + i),
                    .sequence = *sequence.slot,
                    .output = i >= silent,
                });
        }
        if (complete) {
            step.outputs.push_back(
                {sequence.id, wanted.size() - sequence.outputs(), sequence.outputs()}
            );
        }
        step.prompt_tokens += sequence.prefills() ? chunk.count : 0;
        step.sequences.push_back(sequence.id);
        cache_.append(*sequence.slot, tokens);
        sequence.cached += chunk.count;
    }
    for (auto& output : step.outputs) {
        output.first += step.plan.tokens.size();
    }
    step.plan.tokens.insert(step.plan.tokens.end(), wanted.begin(), wanted.end());
    step.plan.changes = cache_.take_changes();
    return step;
}

void Batch::accept(SequenceId id, std::uint32_t drafts_kept, std::int32_t token) {
    auto& sequence = find(id);
    EXO_ASSERT(sequence.pending() == 0 && drafts_kept <= sequence.drafts);
    sequence.tokens.resize(sequence.tokens.size() - (sequence.drafts - drafts_kept));
    sequence.drafts = 0;
    sequence.cached = static_cast<std::uint32_t>(sequence.tokens.size());
    cache_.cut(*sequence.slot, sequence.cached);
    EXO_ASSERT(sequence.tokens.size() < limits_.context_length);
    sequence.tokens.push_back(token);
}

void Batch::draft(SequenceId id, std::span<std::int32_t const> tokens) {
    auto& sequence = find(id);
    EXO_ASSERT(kind().cuttable && sequence.drafts == 0 && tokens.size() <= drafts_max());
    EXO_ASSERT(sequence.tokens.size() + tokens.size() <= limits_.context_length);
    sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
    sequence.drafts = static_cast<std::uint32_t>(tokens.size());
}

std::uint32_t Batch::drafts_max() const {
    auto const running = static_cast<std::uint32_t>(std::max<std::size_t>(1, running_.size()));
    return limits_.micro_batch / running - 1;
}

void Batch::forget() {
    EXO_ASSERT(idle());
    cache_.clear();
}

} // namespace exo::engine
