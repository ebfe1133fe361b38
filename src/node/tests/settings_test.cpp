// SPDX-License-Identifier: Apache-2.0
#include "node/settings.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace exo::node {
namespace {

using namespace model;

ModelCard card(std::string const& id, std::uint64_t bytes, std::uint32_t vocabulary) {
    return {.model_id = ModelId(id), .storage_size = {bytes}, .vocabulary_size = vocabulary};
}

std::vector<ModelCard> known() {
    return {
        card("owner/large", 9000, 32'064), card("owner/small", 100, 32'000), card("other", 50, 700)
    };
}

std::optional<ModelId> draft_of(ModelCard const& target, std::string const& wish) {
    return settings_for(target, {.draft_model = ModelId(wish)}, known()).draft_model;
}

TEST(SettingsFor, a_draft_model_gets_its_full_id) {
    EXPECT_EQ(draft_of(known()[0], "small"), ModelId("owner/small"));
}

TEST(SettingsFor, a_draft_model_that_cannot_serve_is_left_out) {
    EXPECT_EQ(draft_of(known()[0], "unknown"), std::nullopt);
    EXPECT_EQ(draft_of(known()[0], "other"), std::nullopt) << "another vocabulary";
    EXPECT_EQ(draft_of(known()[1], "small"), std::nullopt) << "itself";
    EXPECT_EQ(draft_of(known()[1], "large"), std::nullopt) << "larger";
}

TEST(SettingsFor, the_rest_stays) {
    InstanceSettings const defaults{.cache_type = CacheType::q8_0, .draft_tokens = 3};
    EXPECT_EQ(settings_for(known()[0], defaults, known()), defaults);
}

TEST(DraftFor, a_draft_model_that_a_request_names_gets_its_full_id) {
    EXPECT_EQ(draft_for(known()[0], ModelId("small"), known()).value(), ModelId("owner/small"));
    EXPECT_EQ(draft_for(known()[1], ModelId("large"), known()).value(), ModelId("owner/large"))
        << "larger, as the user wishes";
}

TEST(DraftFor, a_draft_model_that_a_request_names_is_refused_with_field_and_reason) {
    auto const unknown = draft_for(known()[0], ModelId("unknown"), known());
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code(), Errc::invalid_argument);
    EXPECT_TRUE(unknown.error().text().starts_with("settings.draft_model: no model 'unknown'"));

    auto const stranger = draft_for(known()[0], ModelId("other"), known());
    ASSERT_FALSE(stranger);
    EXPECT_EQ(
        stranger.error().text(),
        "settings.draft_model: other cannot draft for owner/large: its vocabulary has 700 tokens, "
        "that of the model 32064"
    );
}

} // namespace
} // namespace exo::node
