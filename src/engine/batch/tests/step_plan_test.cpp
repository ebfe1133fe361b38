// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/step_plan.hpp"

#include <gtest/gtest.h>

namespace exo::engine {
namespace {

StepPlan example() {
    return {
        .kind = StepPlan::Kind::decode,
        .number = 0x0102,
        .changes = {CacheRemoval{.sequence = 3}, CacheCopy{.sequence = 3, .source = 1, .to = 5}},
        .tokens =
            {{.token = 7, .position = 0, .sequence = 1},
             {.token = 300, .position = 1, .sequence = 1, .output = true}},
    };
}

PlanLimits const limits{
    .tokens_max = 8,
    .micro_batch = 4,
    .sequences_max = 4,
    .vocabulary_size = 1000,
    .context_length = 16,
};

TEST(StepPlan, encoding_is_the_documented_one) {
    EXPECT_EQ(
        to_hex(encode(example())),
        "02"
        "00"
        "0201000000000000"
        "02000000"
        "00"
        "03000000"
        "00000000"
        "ffffffff"
        "01"
        "03000000"
        "01000000"
        "05000000"
        "02000000"
        "07000000"
        "00000000"
        "01000000"
        "00"
        "2c010000"
        "01000000"
        "01000000"
        "01"
    );
}

TEST(StepPlan, decoding_gives_the_plan_back) {
    EXPECT_EQ(decode_step_plan(encode(example())).value(), example());
    StepPlan const end{.kind = StepPlan::Kind::end, .number = 9};
    EXPECT_EQ(decode_step_plan(encode(end)).value(), end);
}

TEST(StepPlan, every_cut_is_an_error) {
    auto const bytes = encode(example());
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        auto const decoded = decode_step_plan(BytesView(bytes).first(cut));
        ASSERT_FALSE(decoded.has_value()) << cut;
        EXPECT_EQ(decoded.error().code(), Errc::protocol);
    }
}

TEST(StepPlan, surplus_bytes_unknown_versions_kinds_and_flags_are_errors) {
    auto longer = encode(example());
    longer.push_back(0);
    EXPECT_FALSE(decode_step_plan(longer).has_value());
    auto const last = encode(example()).size() - 1;
    for (std::size_t const at : {std::size_t{0}, std::size_t{1}, std::size_t{14}, last}) {
        auto bytes = encode(example());
        bytes[at] = 3;
        EXPECT_FALSE(decode_step_plan(bytes).has_value()) << at;
    }
}

TEST(StepPlan, a_count_beyond_the_bytes_allocates_nothing) {
    auto bytes = encode(StepPlan{});
    bytes[10] = bytes[11] = bytes[12] = bytes[13] = 0xff;
    EXPECT_FALSE(decode_step_plan(bytes).has_value());
}

TEST(StepPlan, a_good_plan_is_valid) {
    EXPECT_TRUE(validate(example(), limits, 0x0102).has_value());
    EXPECT_TRUE(validate({.kind = StepPlan::Kind::end, .number = 1}, limits, 1).has_value());
}

TEST(StepPlan, what_llama_cpp_would_abort_on_is_refused) {
    auto const refused = [](auto change) {
        auto plan = example();
        change(plan);
        auto const result = validate(plan, limits, 0x0102);
        return !result && result.error().code() == Errc::protocol;
    };
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.number = 5; }));
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.tokens.clear(); }));
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.tokens.resize(9); }));
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.tokens[0].token = 1000; }));
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.tokens[0].token = -1; }));
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.tokens[0].position = 16; }));
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.tokens[0].position = -1; }));
    EXPECT_TRUE(refused([](StepPlan& plan) { plan.tokens[0].sequence = 4; }));
    for (auto const& change : std::vector<CacheChange>{
             CacheRemoval{.sequence = 4},
             CacheRemoval{.sequence = 0, .from = -1},
             CacheRemoval{.sequence = 0, .from = 0, .to = -2},
             CacheCopy{.sequence = 4, .source = 0},
             CacheCopy{.sequence = 0, .source = 4},
             CacheCopy{.sequence = 1, .source = 1},
             CacheCopy{.sequence = 0, .source = 1, .to = 0},
             CacheCopy{.sequence = 0, .source = 1, .to = -2},
         }) {
        EXPECT_TRUE(refused([&](StepPlan& plan) { plan.changes.push_back(change); }));
    }
}

TEST(StepPlan, outputs_before_the_last_micro_batch_are_refused) {
    StepPlan plan;
    plan.tokens.resize(6);
    for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
        plan.tokens[i].position = static_cast<std::int32_t>(i);
    }
    plan.tokens[4].output = true;
    EXPECT_TRUE(validate(plan, limits, 0).has_value());
    plan.tokens[3].output = true;
    EXPECT_FALSE(validate(plan, limits, 0).has_value());
}

} // namespace
} // namespace exo::engine
