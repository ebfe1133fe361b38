// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/membership.hpp"

#include <gtest/gtest.h>

namespace exo::collective {
namespace {

Membership member() {
    return {
        .rank = 1,
        .instance_id = "instance-a",
        .generation = 7,
        .rank_map_hash = digest_of(as_bytes("map")),
        .program_hash = digest_of(as_bytes("program")),
        .program = "exo 0.1.0, llama.cpp b1",
    };
}

PeerMembership peer(Membership membership, std::uint32_t size = 3) {
    membership.rank = 0;
    return {.membership = std::move(membership), .size = size};
}

TEST(Membership, comes_back_from_its_bytes) {
    PeerMembership const expected{.membership = member(), .size = 3, .plain_allowed = true};
    auto const bytes = encode(member(), 3, true);
    EXPECT_LE(bytes.size(), membership_bytes_max);
    EXPECT_EQ(*decode_membership(bytes), expected);
}

TEST(Membership, its_texts_are_cut_to_their_limit) {
    auto long_member = member();
    long_member.program.assign(5000, 'x');
    long_member.instance_id.assign(5000, 'y');
    auto const bytes = encode(long_member, 3, false);
    EXPECT_LE(bytes.size(), membership_bytes_max);
    EXPECT_EQ(decode_membership(bytes)->membership.program.size(), membership_text_bytes_max);
}

TEST(Membership, cut_or_longer_bytes_are_refused) {
    auto bytes = encode(member(), 3, false);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(decode_membership(BytesView(bytes).first(size))) << size;
    }
    bytes.push_back(0);
    EXPECT_FALSE(decode_membership(bytes));
}

TEST(Membership, equal_ones_agree) {
    EXPECT_TRUE(check_agreement(member(), 3, peer(member()), "10.0.0.2:4000"));
}

// One row for each thing that must be equal, and what the error must say of it.
struct Row {
    char const* name;
    void (*change)(Membership&);
    std::vector<char const*> words;
};

class Disagreement : public testing::TestWithParam<Row> {};

TEST_P(Disagreement, names_both_sides) {
    auto other = member();
    GetParam().change(other);
    auto const result = check_agreement(member(), 3, peer(other), "10.0.0.2:4000");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::conflict);
    for (auto const* word : GetParam().words) {
        EXPECT_NE(result.error().text().find(word), std::string::npos) << result.error().text();
    }
    EXPECT_NE(result.error().text().find("rank 0 at 10.0.0.2:4000"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    Disagreement,
    testing::Values(
        Row{"instance",
            [](Membership& m) { m.instance_id = "instance-b"; },
            {"instance-a here", "instance-b there"}},
        Row{"generation", [](Membership& m) { m.generation = 8; }, {"7 here", "8 there"}},
        Row{"rank_map", [](Membership& m) { m.rank_map_hash[0] ^= 1; }, {"rank map"}},
        Row{"program",
            [](Membership& m) {
                m.program_hash[0] ^= 1;
                m.program = "exo 0.2.0, llama.cpp b2";
            },
            {"exo 0.1.0, llama.cpp b1", "exo 0.2.0, llama.cpp b2"}}
    ),
    [](auto const& row) { return row.param.name; }
);

TEST(Membership, another_number_of_ranks_is_a_conflict) {
    EXPECT_FALSE(check_agreement(member(), 3, peer(member(), 4), "here"));
}

} // namespace
} // namespace exo::collective
