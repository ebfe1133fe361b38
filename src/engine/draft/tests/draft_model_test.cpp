// SPDX-License-Identifier: Apache-2.0
//
// The demo model as the draft of itself.
#include "engine/draft/draft_model.hpp"
#include "engine/tests/test_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace exo::engine {
namespace {

using Tokens = std::vector<std::int32_t>;

// Long enough for the model to be sure of what comes.
constexpr char const* colours =
    "<|im_start|>user\nred green blue red green blue red green blue red green blue red green";

class DraftModelTest : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
        auto parameters = llama_model_default_params();
        parameters.vocab_only = true;
        target_.reset(llama_model_load_from_file(test_model().c_str(), parameters));
        ASSERT_TRUE(target_);
    }

    std::unique_ptr<DraftModel> load(std::uint32_t context_length = 512) {
        auto made = DraftModel::load(
            {.paths = {test_model()}, .context_length = context_length, .threads = 2},
            llama_model_get_vocab(target_.get())
        );
        EXPECT_TRUE(made) << made.error().text();
        return made ? std::move(*made) : nullptr;
    }

    [[nodiscard]] Tokens tokens(std::string const& text) const {
        Tokens tokens(text.size() + 1);
        auto const count = llama_tokenize(
            llama_model_get_vocab(target_.get()),
            text.data(),
            static_cast<std::int32_t>(text.size()),
            tokens.data(),
            static_cast<std::int32_t>(tokens.size()),
            false,
            true
        );
        tokens.resize(static_cast<std::size_t>(std::max(0, count)));
        return tokens;
    }

    llama_model_ptr target_;
};

TEST_F(DraftModelTest, what_is_sure_is_drafted) {
    auto const draft = load();
    EXPECT_EQ(draft->propose(0, tokens(colours), 1), tokens(" blue"));
}

// A slot that another sequence had, one whose drafts were rejected, one that grew: the same draft
// as from a new one.
TEST_F(DraftModelTest, drafts_depend_on_the_tokens_alone) {
    auto const count = tokens(colours);
    auto const letters = tokens("a b c d e f g");
    auto const expected = load()->propose(0, count, 6);
    ASSERT_FALSE(expected.empty());
    auto const draft = load();
    (void)draft->propose(0, letters, 2);
    (void)draft->propose(1, tokens("red green"), 2);
    EXPECT_EQ(draft->propose(0, count, 6), expected);
    EXPECT_EQ(draft->propose(1, count, 6), expected);
    for (std::uint32_t slot = 2; slot < 6; ++slot) { // More than there are places.
        (void)draft->propose(slot, letters, 1);
    }
    EXPECT_EQ(draft->propose(0, count, 6), expected);
    draft->forget(0);
    EXPECT_EQ(draft->propose(0, count, 6), expected);
    EXPECT_EQ(draft->propose(0, count, 6), expected);
}

TEST_F(DraftModelTest, a_long_prompt_is_read_in_parts_before_anything_is_drafted) {
    std::string text;
    for (int i = 0; i < 35; ++i) {
        text += " one two three four";
    }
    auto const prompt = tokens(text);
    ASSERT_GT(prompt.size(), 2 * draft_catch_up_most);
    auto const draft = load();
    std::size_t steps = 0;
    while (draft->propose(0, prompt, 4).empty() && steps < 10) {
        ++steps;
    }
    EXPECT_EQ(steps, (prompt.size() - 1) / draft_catch_up_most);
}

TEST_F(DraftModelTest, what_was_read_for_a_chat_is_there_for_its_next_turn) {
    Tokens prompt(100, tokens(" one").front());
    auto const draft = load();
    while (draft->propose(4, prompt, 1).empty()) {
    }
    draft->forget(4);
    prompt.push_back(prompt.front());
    EXPECT_FALSE(draft->propose(7, prompt, 1).empty()) << "at once, in another slot";
}

TEST_F(DraftModelTest, beyond_its_context_nothing_is_drafted) {
    auto const draft = load(256);
    Tokens const prompt(250, tokens(" one").front());
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(draft->propose(0, prompt, 7).empty());
    }
}

// Cells for one of the two only: the one that finds no room drops both, and all goes on.
TEST_F(DraftModelTest, without_room_all_begin_anew) {
    auto const draft = load(256);
    Tokens const first(150, tokens(" one").front());
    Tokens const second(150, tokens(" two").front());
    std::size_t drafts = 0;
    for (std::uint32_t i = 0; i < 12; ++i) {
        drafts += draft->propose(i / 6, i < 6 ? first : second, 2).empty() ? 0 : 1;
    }
    EXPECT_GT(drafts, 2u);
}

// The test model's file with one word of the vocabulary changed.
std::string with_another_word(std::string const& directory) {
    std::ostringstream bytes;
    bytes << std::ifstream(test_model(), std::ios::binary).rdbuf();
    auto text = std::move(bytes).str();
    std::string const word("\x07\0\0\0\0\0\0\0\xC4\xA0Paris", 15); // Length, and " Paris".
    auto const at = text.find(word);
    EXPECT_NE(at, std::string::npos);
    text[at + word.size() - 1] = 'z';
    auto const path = directory + "/other-words.gguf";
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

TEST_F(DraftModelTest, another_vocabulary_is_refused_with_the_word) {
    auto const directory = testing::TempDir() + "/exo-draft-" + std::to_string(getpid());
    std::filesystem::create_directories(directory);
    auto const made = DraftModel::load(
        {.paths = {with_another_word(directory)}, .context_length = 256},
        llama_model_get_vocab(target_.get())
    );
    std::filesystem::remove_all(directory);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), Errc::unsupported);
    EXPECT_NE(made.error().text().find("Pariz"), std::string::npos) << made.error().text();
}

TEST_F(DraftModelTest, a_file_that_is_none_is_refused_by_name) {
    auto const made = DraftModel::load(
        {.paths = {"/nonexistent.gguf"}, .context_length = 256},
        llama_model_get_vocab(target_.get())
    );
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().text().find("draft model: "), std::string::npos) << made.error().text();
    EXPECT_NE(made.error().text().find("/nonexistent.gguf"), std::string::npos);
}

} // namespace
} // namespace exo::engine
