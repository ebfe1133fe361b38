// SPDX-License-Identifier: Apache-2.0
#include "core/placement/cuts.hpp"
#include "core/placement/memory.hpp"
#include "examples.hpp"

#include <gtest/gtest.h>

namespace exo::placement {
namespace {

using namespace model;
using examples::card;
using examples::mib;

ModelCut refused(Sharding sharding, std::uint32_t ranks) {
    return {.sharding = sharding, .ranks = ranks, .refusal = "no"};
}

// 28 layers of 100 MiB with a token embedding of 60 MiB and an output matrix of 80 MiB.
ModelCut stages(std::uint32_t ranks) {
    ModelCut cut{.ranks = ranks, .layer_bytes = 100 * mib};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        std::uint64_t const layers = 28 / ranks + (rank < 28 % ranks ? 1 : 0);
        std::uint64_t const ends = (rank == (ranks == 1 ? 0 : 1) ? 60 : 0) + (rank == 0 ? 80 : 0);
        cut.needs.push_back(
            {.weight_bytes = (layers * 100 + ends) * mib,
             .kv_bytes_per_token = layers * 4096,
             .compute_bytes = 10 * mib}
        );
    }
    return cut;
}

TEST(WhyNotCut, without_verdicts_the_card_is_all_there_is) {
    EXPECT_EQ(why_not_cut(card(), Sharding::tensor, 16), "");
    EXPECT_EQ(why_not_cut(card(), Sharding::pipeline, 15), "");
    auto whole = card();
    whole.supports_tensor = false;
    EXPECT_NE(why_not_cut(whole, Sharding::tensor, 2), "");
    EXPECT_EQ(why_not_cut(whole, Sharding::tensor, 1), ""); // Nothing to cut.
}

TEST(WhyNotCut, a_pipeline_that_was_not_tried_is_like_the_next_shorter_one) {
    auto tried = card();
    tried.cuts = {stages(1), refused(Sharding::pipeline, 2), stages(4)};
    EXPECT_EQ(why_not_cut(tried, Sharding::pipeline, 1), "");
    EXPECT_NE(why_not_cut(tried, Sharding::pipeline, 3), "");
    EXPECT_EQ(why_not_cut(tried, Sharding::pipeline, 5), "");
}

TEST(WhyNotCut, by_tensor_each_number_must_have_been_tried) {
    auto tried = card();
    tried.cuts = {stages(1), refused(Sharding::tensor, 3)};
    EXPECT_NE(why_not_cut(tried, Sharding::tensor, 2), "");
    EXPECT_EQ(
        why_not_cut(tried, Sharding::tensor, 3), "it cannot be cut by tensor into 3 parts: no"
    );
}

TEST(CutOf, a_verdict_without_the_figures_of_every_rank_is_none) {
    auto broken = card();
    broken.cuts = {stages(2)};
    EXPECT_NE(cut_of(broken, Sharding::pipeline, 2), nullptr);
    broken.cuts[0].needs.pop_back();
    EXPECT_EQ(cut_of(broken, Sharding::pipeline, 2), nullptr);
    EXPECT_GT(stage_bytes(broken, {.tokens = 2048}, 1, 2).fixed, 0u); // An estimate.
}

TEST(StageBytes, each_layer_counts_once_and_the_ends_where_they_are) {
    auto tried = card();
    tried.cuts = {stages(3)};
    std::uint64_t const kv = 2048 * 4096;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        auto const stage = stage_bytes(tried, {.tokens = 2048}, rank, 3);
        EXPECT_EQ(stage.layer, 100 * mib + kv);
        EXPECT_EQ(
            stage.fixed - stage_bytes(tried, {.tokens = 2048}, 2, 3).fixed,
            (rank == 0   ? 80
             : rank == 1 ? 60
                         : 0) *
                mib
        );
    }
}

// Of 1,000 MiB, 100 are on every rank and the rest is cut.
ModelCard cut_by_tensor() {
    auto tried = card();
    tried.cuts = {
        {.ranks = 1, .needs = {{.weight_bytes = 1000 * mib}}},
        {.sharding = Sharding::tensor,
         .ranks = 2,
         .needs =
             {{.weight_bytes = 550 * mib, .compute_bytes = 5 * mib},
              {.weight_bytes = 550 * mib, .compute_bytes = 5 * mib}}}
    };
    tried.kv_bytes_per_token = 0;
    return tried;
}

TEST(TensorRankBytes, what_every_rank_holds_does_not_depend_on_its_share) {
    auto const tried = cut_by_tensor();
    std::vector<std::uint64_t> const even{1, 1};
    std::vector<std::uint64_t> const uneven{3, 1};
    auto const half = tensor_rank_bytes(tried, {.tokens = 512}, even, 0);
    EXPECT_EQ(tensor_rank_bytes(tried, {.tokens = 512}, uneven, 0) - half, 225 * mib);
    EXPECT_EQ(half - tensor_rank_bytes(tried, {.tokens = 512}, uneven, 1), 225 * mib);
}

TEST(TensorRankBytes, without_the_figure_of_one_rank_a_narrow_one_is_not_believed_to_be_small) {
    auto tried = cut_by_tensor();
    tried.cuts.erase(tried.cuts.begin());
    std::vector<std::uint64_t> const even{1, 1};
    std::vector<std::uint64_t> const uneven{3, 1};
    EXPECT_EQ(
        tensor_rank_bytes(tried, {.tokens = 512}, uneven, 1),
        tensor_rank_bytes(tried, {.tokens = 512}, even, 1)
    );
    EXPECT_GT(
        tensor_rank_bytes(tried, {.tokens = 512}, uneven, 0),
        tensor_rank_bytes(tried, {.tokens = 512}, even, 0)
    );
}

TEST(TensorRankBytes, figures_from_outside_do_not_overflow) {
    auto wild = cut_by_tensor();
    for (auto& cut : wild.cuts) {
        for (auto& need : cut.needs) {
            need = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
        }
        cut.layer_bytes = UINT64_MAX;
    }
    std::vector<std::uint64_t> const shares{UINT64_MAX, 1};
    EXPECT_EQ(tensor_rank_bytes(wild, {.tokens = UINT32_MAX}, shares, 0), UINT64_MAX);
    EXPECT_EQ(stage_bytes(wild, {.tokens = UINT32_MAX}, 0, 1).with(28), UINT64_MAX);
}

} // namespace
} // namespace exo::placement
