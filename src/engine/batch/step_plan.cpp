// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/step_plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <concepts>
#include <type_traits>

namespace exo::engine {
namespace {

constexpr std::uint8_t version = 2;
constexpr std::size_t change_bytes = 13;
constexpr std::size_t token_bytes = 13;

template <std::integral T>
void put(Bytes& to, T value) {
    auto rest = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        to.push_back(static_cast<std::uint8_t>(rest));
        rest = static_cast<std::make_unsigned_t<T>>(std::uint64_t{rest} >> 8);
    }
}

// Reads until the bytes run out; then `whole` is false, and values are 0.
class Reader {
public:
    explicit Reader(BytesView bytes)
        : bytes_(bytes) {}

    template <std::integral T>
    T get() {
        if (bytes_.size() < sizeof(T)) {
            whole_ = false;
            bytes_ = {};
            return 0;
        }
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < sizeof(T); ++i) {
            value |= std::uint64_t{bytes_[i]} << (8 * i);
        }
        bytes_ = bytes_.subspan(sizeof(T));
        return static_cast<T>(value);
    }

    // A count of things of `each` bytes; more than there are bytes for is no count.
    std::size_t count(std::size_t each) {
        auto const count = get<std::uint32_t>();
        whole_ = whole_ && count <= bytes_.size() / each;
        return whole_ ? count : 0;
    }

    [[nodiscard]] bool at_end() const { return whole_ && bytes_.empty(); }

private:
    BytesView bytes_;
    bool whole_ = true;
};

// The place in the variant is the kind on the wire.
static_assert(std::is_same_v<std::variant_alternative_t<0, CacheChange>, CacheRemoval>);
static_assert(std::is_same_v<std::variant_alternative_t<1, CacheChange>, CacheCopy>);

void put_change(Bytes& to, CacheRemoval const& removal) {
    put(to, removal.sequence);
    put(to, removal.from);
    put(to, removal.to);
}

void put_change(Bytes& to, CacheCopy const& copy) {
    put(to, copy.sequence);
    put(to, copy.source);
    put(to, copy.to);
}

Error malformed(std::string text) {
    return {Errc::protocol, "step plan: " + std::move(text)};
}

Result<CacheChange> get_change(Reader& reader) {
    auto const kind = reader.get<std::uint8_t>();
    auto const sequence = reader.get<std::uint32_t>();
    if (kind == 0) {
        auto const from = reader.get<std::int32_t>();
        return CacheChange(CacheRemoval{sequence, from, reader.get<std::int32_t>()});
    }
    if (kind == 1) {
        auto const source = reader.get<std::uint32_t>();
        return CacheChange(CacheCopy{sequence, source, reader.get<std::int32_t>()});
    }
    return malformed(fmt::format("cache change of kind {}", kind));
}

Result<void> validate_change(CacheRemoval const& removal, PlanLimits const& limits) {
    if (removal.sequence >= limits.sequences_max || removal.from < 0 || removal.to < -1) {
        return malformed(fmt::format(
            "removal of [{}, {}) from sequence {}", removal.from, removal.to, removal.sequence
        ));
    }
    return {};
}

Result<void> validate_change(CacheCopy const& copy, PlanLimits const& limits) {
    if (copy.sequence >= limits.sequences_max || copy.source >= limits.sequences_max ||
        copy.sequence == copy.source || copy.to == 0 || copy.to < -1) {
        return malformed(fmt::format(
            "copy of [0, {}) from sequence {} to {}", copy.to, copy.source, copy.sequence
        ));
    }
    return {};
}

Result<void> validate_token(PlanToken const& token, PlanLimits const& limits) {
    if (token.token < 0 || token.token >= limits.vocabulary_size) {
        return malformed(fmt::format("token {} of {}", token.token, limits.vocabulary_size));
    }
    if (token.sequence >= limits.sequences_max) {
        return malformed(fmt::format("sequence {} of {}", token.sequence, limits.sequences_max));
    }
    if (token.position < 0 || std::uint32_t(token.position) >= limits.context_length) {
        return malformed(
            fmt::format("position {} in a context of {}", token.position, limits.context_length)
        );
    }
    return {};
}

} // namespace

Bytes encode(StepPlan const& plan) {
    Bytes bytes;
    bytes.reserve(18 + plan.changes.size() * change_bytes + plan.tokens.size() * token_bytes);
    put(bytes, version);
    put(bytes, static_cast<std::uint8_t>(plan.kind));
    put(bytes, plan.number);
    put(bytes, static_cast<std::uint32_t>(plan.changes.size()));
    for (auto const& change : plan.changes) {
        put(bytes, static_cast<std::uint8_t>(change.index()));
        std::visit([&](auto const& each) { put_change(bytes, each); }, change);
    }
    put(bytes, static_cast<std::uint32_t>(plan.tokens.size()));
    for (auto const& token : plan.tokens) {
        put(bytes, token.token);
        put(bytes, token.position);
        put(bytes, token.sequence);
        put(bytes, static_cast<std::uint8_t>(token.output ? 1 : 0));
    }
    return bytes;
}

Result<StepPlan> decode_step_plan(BytesView bytes) {
    Reader reader(bytes);
    if (auto const got = reader.get<std::uint8_t>(); got != version) {
        return malformed(fmt::format("version {}, this build knows {}", got, version));
    }
    StepPlan plan;
    auto const kind = reader.get<std::uint8_t>();
    if (kind > static_cast<std::uint8_t>(StepPlan::Kind::end)) {
        return malformed(fmt::format("kind {}", kind));
    }
    plan.kind = static_cast<StepPlan::Kind>(kind);
    plan.number = reader.get<std::uint64_t>();
    plan.changes.resize(reader.count(change_bytes));
    for (auto& change : plan.changes) {
        auto const got = get_change(reader);
        if (!got) {
            return got.error();
        }
        change = *got;
    }
    plan.tokens.resize(reader.count(token_bytes));
    for (auto& token : plan.tokens) {
        token.token = reader.get<std::int32_t>();
        token.position = reader.get<std::int32_t>();
        token.sequence = reader.get<std::uint32_t>();
        auto const output = reader.get<std::uint8_t>();
        if (output > 1) {
            return malformed(fmt::format("output flag {}", output));
        }
        token.output = output == 1;
    }
    if (!reader.at_end()) {
        return malformed(fmt::format("{} bytes are not one whole plan", bytes.size()));
    }
    return plan;
}

Result<void> validate(StepPlan const& plan, PlanLimits const& limits, std::uint64_t number) {
    if (plan.number != number) {
        return malformed(fmt::format("number {} where {} was due", plan.number, number));
    }
    if (plan.kind == StepPlan::Kind::end) {
        return {};
    }
    for (auto const& change : plan.changes) {
        EXO_TRY(std::visit([&](auto const& each) { return validate_change(each, limits); }, change)
        );
    }
    if (plan.tokens.empty() || plan.tokens.size() > limits.tokens_max) {
        return malformed(
            fmt::format("{} tokens, it must be 1 to {}", plan.tokens.size(), limits.tokens_max)
        );
    }
    // Logits are read after each micro-batch that has some: only the last may, or the ranks of a
    // pipeline would wait for each other.
    auto const last = (plan.tokens.size() - 1) / limits.micro_batch * limits.micro_batch;
    for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
        EXO_TRY(validate_token(plan.tokens[i], limits));
        if (plan.tokens[i].output && i < last) {
            return malformed(fmt::format("output {} is before the last micro-batch", i));
        }
    }
    return {};
}

} // namespace exo::engine
