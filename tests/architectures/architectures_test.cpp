// SPDX-License-Identifier: Apache-2.0
//
// Every architecture that llama.cpp knows, cut by layers and by width over two ranks: the logits
// are llama.cpp's own, or the probe refuses the model, and then the ranks would have failed.
//
// EXO_UPDATE_GOLDEN=1 rewrites list.tsv and docs/architectures.md; the difference is reviewed.
#include "child.hpp"
#include "comparison.hpp"
#include "list.hpp"
#include "model/gguf/card.hpp"
#include "small_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <unistd.h>

namespace exo::architectures {
namespace {

constexpr std::uint32_t ranks = 2;
constexpr std::size_t pipeline_min = 120;
constexpr std::size_t tensor_min = 95;

std::string const list_path = EXO_SOURCE_DIR "/tests/architectures/list.tsv";
std::string const page_path = EXO_SOURCE_DIR "/docs/architectures.md";

bool updates() {
    auto const* const wish = std::getenv("EXO_UPDATE_GOLDEN");
    return wish != nullptr && std::string_view(wish) == "1";
}

std::string row_of(SmallModel const& model) {
    return model.architecture + ", " + to_string(model.variant);
}

std::string contents(std::string const& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

Result<Bytes> write(SmallModel const& model, std::string const& path) {
    return Child(
               [&]() -> Result<Bytes> {
                   EXO_TRY(write_small_model(model, path));
                   return Bytes{};
               }
    ).wait();
}

// One result: what the ranks compute, and that the probe has said so.
std::string
try_ranks(std::string const& path, model::Sharding sharding, Result<Logits> const& reference) {
    auto const verdict = probe(path, sharding, ranks);
    auto const values = logits_of_ranks(path, sharding, ranks);
    if (!verdict) {
        auto const reason = verdict.error().text();
        EXPECT_FALSE(values) << "the probe refuses what works: " << reason;
        bool const alike = !reference && reference.error().text() == reason;
        return refusal_of((alike ? "llama.cpp cannot run the small model: " : "") + reason);
    }
    if (!values) {
        auto const reason = values.error().text();
        ADD_FAILURE() << "the probe allows what fails: " << reason;
        return refusal_of(reason);
    }
    if (!reference) { // Nothing to compare with: the ranks may compute anything.
        auto const reason = reference.error().text();
        ADD_FAILURE() << "the probe allows what llama.cpp alone cannot run: " << reason;
        return refusal_of(reason);
    }
    return result_of(nmse(*values, *reference));
}

Results results_of(SmallModel const& model) {
    auto const path = model.architecture + ".gguf";
    auto const made = write(model, path);
    if (!made) {
        auto const reason = refusal_of(made.error().text());
        return {reason, reason};
    }
    auto const reference = logits_of_llama(path);
    Results const results{
        try_ranks(path, model::Sharding::pipeline, reference),
        try_ranks(path, model::Sharding::tensor, reference)
    };
    std::filesystem::remove(path);
    return results;
}

// The current folder, for as long as a suite lasts: names of files are part of refusals, and the
// folder is then not.
class Folder {
public:
    Folder()
        : path_(testing::TempDir() + "/exo_architectures_" + std::to_string(getpid())) {
        std::filesystem::create_directories(path_);
        std::filesystem::current_path(path_);
    }

    ~Folder() {
        std::filesystem::current_path("/");
        std::filesystem::remove_all(path_);
    }

    Folder(Folder const&) = delete;
    Folder& operator=(Folder const&) = delete;

private:
    std::string path_;
};

class Architectures : public testing::TestWithParam<SmallModel> {
public:
    static void SetUpTestSuite() {
        folder().emplace();
        if (auto list = read_list(list_path)) {
            known() = std::move(*list);
        }
    }

    static void TearDownTestSuite() {
        folder().reset();
        if (updates()) {
            std::ofstream(list_path) << to_tsv(known());
            std::ofstream(page_path) << to_page(known());
        }
    }

protected:
    static std::optional<Folder>& folder() {
        static std::optional<Folder> current;
        return current;
    }

    static List& known() {
        static List list;
        return list;
    }
};

class OneKvHead : public testing::Test {
    Folder folder_;
};

TEST_P(Architectures, runs_over_two_ranks_or_is_refused_as_the_list_says) {
    auto const results = results_of(GetParam());
    auto& expected = known()[row_of(GetParam())];
    for (auto const mode : {&Results::pipeline, &Results::tensor}) {
        auto const& was = expected.*mode;
        auto const& is = results.*mode;
        if (updates()) {
            // Powers of ten that rounding changes from one machine to another are no news.
            expected.*mode = runs(was) && runs(is) && !was.empty() ? was : is;
        } else if (runs(was) && runs(is)) {
            EXPECT_FALSE(was.empty()) << "not in the list: " << is;
        } else {
            EXPECT_EQ(is, was);
        }
    }
}

// More ranks than KV heads, and at 3 ranks heads that do not go up.
TEST_F(OneKvHead, is_shared_by_as_many_ranks_as_there_are_heads) {
    for (auto const& model : small_models()) {
        if (model.variant != Variant::one_kv_head) {
            continue;
        }
        auto const path = model.architecture + ".gguf";
        ASSERT_TRUE(write(model, path));
        auto const reference = logits_of_llama(path);
        for (std::uint32_t const size : {3u, 4u}) {
            auto const values = logits_of_ranks(path, model::Sharding::tensor, size);
            ASSERT_TRUE(reference && values) << model.architecture << ", " << size << " ranks";
            EXPECT_LT(nmse(*values, *reference), nmse_max)
                << model.architecture << ", " << size << " ranks";
        }
        std::filesystem::remove(path);
    }
}

INSTANTIATE_TEST_SUITE_P(
    ,
    Architectures,
    testing::ValuesIn(small_models()),
    [](auto const& instance) {
        auto name = row_of(instance.param);
        for (auto& letter : name) {
            letter = std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
        }
        return name;
    }
);

class ArchitectureList : public testing::Test {
protected:
    void SetUp() override {
        auto list = read_list(list_path);
        ASSERT_TRUE(list);
        list_ = std::move(*list);
    }

    List list_;
};

TEST_F(ArchitectureList, names_exactly_what_llama_knows) {
    std::vector<std::string> listed;
    std::vector<std::string> existing;
    for (auto const& [row, results] : list_) {
        listed.push_back(row);
    }
    for (auto const& model : small_models()) {
        existing.push_back(row_of(model));
    }
    std::ranges::sort(existing);
    EXPECT_EQ(listed, existing);
}

TEST_F(ArchitectureList, has_as_many_that_run_as_were_promised) {
    EXPECT_GE(count_running(list_, &Results::pipeline), pipeline_min);
    EXPECT_GE(count_running(list_, &Results::tensor), tensor_min);
}

// The card offers a model for tensor mode before anybody has asked llama.cpp.
TEST_F(ArchitectureList, is_what_a_model_card_says_of_tensor_mode) {
    std::map<std::string, bool> cut; // By architecture: in some variant.
    for (auto const& [row, results] : list_) {
        if (runs(results.pipeline)) {
            auto& known = cut[row.substr(0, row.find(','))];
            known = known || runs(results.tensor);
        }
    }
    for (auto const& [architecture, expected] : cut) {
        model::gguf::Header header;
        header.metadata = {
            {"general.architecture", architecture},
            {architecture + ".block_count", std::uint64_t{2}},
            {architecture + ".embedding_length", std::uint64_t{128}}
        };
        auto const card = model::gguf::card_from_gguf(header, /*tensor_bytes=*/1, "x.gguf");
        ASSERT_TRUE(card) << architecture;
        EXPECT_EQ(card->supports_tensor, expected) << architecture;
    }
}

TEST_F(ArchitectureList, is_what_the_page_is_made_from) {
    EXPECT_TRUE(contents(page_path) == to_page(list_)) << "EXO_UPDATE_GOLDEN=1 rewrites it";
}

} // namespace
} // namespace exo::architectures
