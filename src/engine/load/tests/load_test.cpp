// SPDX-License-Identifier: Apache-2.0
//
// Files as they come from a disk: what is not a whole GGUF is refused with the reason.
#include "engine/load/probe.hpp"
#include "engine/load/reader.hpp"
#include "engine/tests/test_model.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace exo::engine {
namespace {

class ModelFilesTest : public testing::Test {
protected:
    void SetUp() override {
        folder_ =
            std::filesystem::temp_directory_path() / ("exo-load-test-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
    }

    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string write(std::string const& name, std::string const& content) const {
        auto const path = (folder_ / name).string();
        std::ofstream(path, std::ios::binary) << content;
        return path;
    }

    static std::string refusal(std::string const& path) {
        auto const files = ModelFiles::open({path});
        EXPECT_FALSE(files.has_value());
        if (files) {
            return "";
        }
        EXPECT_NE(files.error().text().find(path), std::string::npos) << files.error().text();
        return files.error().text();
    }

    static bool says(std::string const& text, std::string const& part) {
        return text.find(part) != std::string::npos;
    }

    std::filesystem::path folder_;
};

TEST_F(ModelFilesTest, a_missing_file_is_not_found) {
    auto const files = ModelFiles::open({(folder_ / "none.gguf").string()});
    ASSERT_FALSE(files.has_value());
    EXPECT_EQ(files.error().code(), Errc::not_found);
}

TEST_F(ModelFilesTest, an_empty_file_is_refused) {
    EXPECT_TRUE(says(refusal(write("empty.gguf", "")), "is empty"));
}

TEST_F(ModelFilesTest, a_git_lfs_pointer_is_named_as_such) {
    auto const path = write(
        "pointer.gguf",
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98362432\n"
    );
    EXPECT_TRUE(says(refusal(path), "Git LFS pointer"));
}

TEST_F(ModelFilesTest, a_text_is_named_as_such) {
    EXPECT_TRUE(says(refusal(write("page.gguf", "<html>Not found</html>\n")), "is text"));
}

TEST_F(ModelFilesTest, another_kind_of_file_is_refused_by_its_first_bytes) {
    auto const text = refusal(write("model.gguf", std::string("PK\x03\x04\x00\x01", 6)));
    EXPECT_TRUE(says(text, "504b0304")) << text;
}

TEST_F(ModelFilesTest, a_header_without_a_model_is_refused) {
    // GGUF version 3 with no tensors and no keys.
    std::string header("GGUF\x03\0\0\0", 8);
    header.append(16, '\0');
    EXPECT_TRUE(says(refusal(write("none.gguf", header)), "no language model"));
}

TEST_F(ModelFilesTest, a_cut_off_header_is_refused) {
    std::string header("GGUF\x03\0\0\0", 8);
    EXPECT_TRUE(says(refusal(write("cut.gguf", header + "\x05")), "cut off within its header"));
}

TEST_F(ModelFilesTest, a_truncated_model_is_refused_with_tensor_offset_and_sizes) {
    auto const model = test_model();
    if (!std::filesystem::exists(model)) {
        GTEST_SKIP() << "no test model at " << model;
    }
    auto const path = (folder_ / "truncated.gguf").string();
    std::filesystem::copy_file(model, path);
    auto const half = std::filesystem::file_size(model) / 2;
    std::filesystem::resize_file(path, half);
    auto const text = refusal(path);
    EXPECT_TRUE(says(text, "is truncated: tensor ")) << text;
    EXPECT_TRUE(says(text, "offset ")) << text;
    EXPECT_TRUE(says(text, "it has " + std::to_string(half))) << text;
}

TEST_F(ModelFilesTest, a_part_of_a_model_alone_is_refused) {
    auto const text = [](std::string const& value) {
        std::string bytes(8, '\0');
        bytes[0] = static_cast<char>(value.size());
        return bytes + value;
    };
    std::string header("GGUF\x03\0\0\0", 8);
    header.append(8, '\0');                                             // No tensors.
    header += std::string("\x01\0\0\0\0\0\0\0", 8);                     // One key:
    header += text("split.count") + std::string("\x02\0\0\0\x03\0", 6); // u16 3.
    header.append(64, '\0');
    EXPECT_TRUE(says(refusal(write("part.gguf", header)), "is part 1 of 3"));
}

TEST(LayerOf, names_of_layers_give_their_number) {
    EXPECT_EQ(layer_of("blk.7.attn_q.weight"), 7u);
    EXPECT_EQ(layer_of("blk.12.ffn_up.weight"), 12u);
    EXPECT_EQ(layer_of("output.weight"), std::nullopt);
    EXPECT_EQ(layer_of("blk.x"), std::nullopt);
}

class ProbeTest : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
    }

    static LoadOptions options(model::Sharding sharding, std::uint32_t ranks) {
        return {
            .model_paths = {test_model()},
            .sharding = sharding,
            .ranks = ranks,
            .context_length = 1024,
            .micro_batch = 64,
            .step_tokens_max = 128,
            .parallel = 4,
        };
    }
};

TEST_F(ProbeTest, ranks_of_a_pipeline_share_the_weights) {
    auto const one = probe_model(options(model::Sharding::pipeline, 1));
    ASSERT_TRUE(one.has_value()) << one.error().text();
    auto const three = probe_model(options(model::Sharding::pipeline, 3));
    ASSERT_TRUE(three.has_value()) << three.error().text();
    EXPECT_EQ(three->layers, 30u);
    std::uint64_t sum = 0;
    for (auto const& rank : three->ranks) {
        EXPECT_LT(rank.weight_bytes, one->ranks[0].weight_bytes * 2 / 3);
        EXPECT_NEAR(rank.cache_bytes_per_token, one->ranks[0].cache_bytes_per_token / 3, 1);
        sum += rank.weight_bytes;
    }
    auto const all = one->ranks[0].weight_bytes;
    EXPECT_NEAR(double(sum), double(all), 0.01 * double(all));
}

TEST_F(ProbeTest, ranks_together_need_every_byte_of_the_file) {
    for (auto const sharding : {model::Sharding::pipeline, model::Sharding::tensor}) {
        auto const report = probe_model(options(sharding, 3));
        ASSERT_TRUE(report.has_value()) << report.error().text();
        auto const size = std::filesystem::file_size(test_model());
        std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
        for (auto const& rank : report->ranks) {
            for (auto const& range : rank.ranges) {
                ranges.emplace_back(range.place.offset, range.place.offset + range.bytes);
            }
        }
        std::ranges::sort(ranges);
        std::uint64_t covered = 0;
        for (auto const& [from, to] : ranges) {
            EXPECT_LE(from, covered + 256) << "a hole"; // Padding between tensors.
            covered = std::max(covered, to);
        }
        EXPECT_EQ(covered, size);
    }
}

TEST_F(ProbeTest, shares_decide_how_much_each_rank_has) {
    auto wish = options(model::Sharding::pipeline, 2);
    wish.shares = {20, 10};
    auto const report = probe_model(wish);
    ASSERT_TRUE(report.has_value()) << report.error().text();
    EXPECT_NEAR(
        report->ranks[0].cache_bytes_per_token, 2 * report->ranks[1].cache_bytes_per_token, 1
    );
}

TEST_F(ProbeTest, shares_that_do_not_add_up_are_refused_with_numbers) {
    auto wish = options(model::Sharding::pipeline, 2);
    wish.shares = {20, 20};
    auto const report = probe_model(wish);
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().text(), "the ranks' shares are 40 layers, the model has 30");
}

TEST_F(ProbeTest, a_cache_of_q8_0_takes_34_bytes_where_f16_takes_64) {
    for (auto const sharding : {model::Sharding::pipeline, model::Sharding::tensor}) {
        auto wish = options(sharding, 2);
        auto const full = probe_model(wish);
        wish.cache_type = model::CacheType::q8_0;
        auto const small = probe_model(wish);
        ASSERT_TRUE(full.has_value() && small.has_value());
        for (std::size_t rank = 0; rank < 2; ++rank) {
            auto const bytes = full->ranks[rank].cache_bytes_per_token;
            EXPECT_NEAR(small->ranks[rank].cache_bytes_per_token, bytes * 34 / 64, bytes / 100);
        }
    }
}

// n_seq_max of the context that a model gets.
std::uint32_t sequences(LoadOptions const& options) {
    auto const outline = outline_model(options, nullptr);
    EXPECT_TRUE(outline.has_value());
    return outline ? outline->parameters.n_seq_max : 0;
}

TEST_F(ProbeTest, cells_and_logits_limit_the_sequences_unless_the_user_wants_more) {
    auto wish = options(model::Sharding::pipeline, 1);
    wish.parallel = 0;
    auto const by_logits = sequences(wish); // A row has 49,152 floats, the weights 100 MB.
    EXPECT_GT(by_logits, 16u);
    EXPECT_LT(by_logits, 40u);
    wish.context_length = 512;
    EXPECT_EQ(sequences(wish), 16u); // 32 cells each.
    wish.parallel = 60;
    EXPECT_EQ(sequences(wish), 60u);
    wish.parallel = 100; // One token of each must fit into a micro-batch.
    EXPECT_EQ(sequences(wish), 64u);
}

TEST_F(ProbeTest, too_many_ranks_are_refused) {
    EXPECT_FALSE(probe_model(options(model::Sharding::pipeline, 16)).has_value());
    EXPECT_FALSE(probe_model(options(model::Sharding::tensor, 17)).has_value());
    EXPECT_TRUE(probe_model(options(model::Sharding::pipeline, 15)).has_value());
}

TEST_F(ProbeTest, the_report_is_the_documented_json) {
    auto const report = probe_model(options(model::Sharding::tensor, 2));
    ASSERT_TRUE(report.has_value()) << report.error().text();
    auto const json = nlohmann::json::parse(to_json(*report));
    EXPECT_EQ(json["ok"], true);
    EXPECT_EQ(json["architecture"], "llama");
    EXPECT_EQ(json["layers"], 30);
    EXPECT_EQ(json["context"], 1024);
    ASSERT_EQ(json["ranks"].size(), 2u);
    EXPECT_GT(json["ranks"][0]["weight_bytes"], 0);
    EXPECT_GT(json["ranks"][0]["kv_bytes_per_token"], 0);
    EXPECT_EQ(json["ranks"][0]["ranges"][0][0], 0); // The header.
}

} // namespace
} // namespace exo::engine
