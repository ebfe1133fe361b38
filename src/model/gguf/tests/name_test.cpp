// SPDX-License-Identifier: Apache-2.0
#include "model/gguf/card.hpp"

#include <gtest/gtest.h>

namespace exo::model::gguf {
namespace {

struct Row {
    char const* file;
    char const* stem;
    char const* quantization;
};

class FileNames : public testing::TestWithParam<Row> {};

TEST_P(FileNames, give_stem_and_quantization) {
    auto const& row = GetParam();
    EXPECT_EQ(
        parse_file_name(row.file), (FileName{.stem = row.stem, .quantization = row.quantization})
    );
}

INSTANTIATE_TEST_SUITE_P(
    Gguf,
    FileNames,
    testing::Values(
        Row{"SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct", "Q4_1"},
        Row{"Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "Qwen3-30B-A3B", "UD-Q4_K_XL"},
        Row{"Llama-3.2-1B-Instruct-q8_0.GGUF", "Llama-3.2-1B-Instruct", "Q8_0"},
        Row{"gemma-3-270m-it-F16.gguf", "gemma-3-270m-it", "F16"},
        Row{"gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b", "MXFP4"},
        Row{"model-IQ2_XXS-00001-of-00003.gguf", "model", "IQ2_XXS"},
        Row{"bitnet.TQ1_0.gguf", "bitnet", "TQ1_0"},
        Row{"mistral-7b-v0.1.gguf", "mistral-7b-v0.1", ""},
        Row{"Q4_0.gguf", "Q4_0", ""},
        Row{"quick-q.gguf", "quick-q", ""},
        Row{"qwen-Q40.gguf", "qwen-Q40", ""},
        Row{"sha256-00ff", "sha256-00ff", ""},
        Row{".gguf", ".gguf", ""},
        Row{"", "", ""}
    )
);

TEST(PartNames, are_five_digits_of_five_digits) {
    EXPECT_EQ(
        parse_part_name("a-b-00002-of-00010.gguf"),
        (PartName{.base = "a-b", .number = 2, .count = 10})
    );
    for (auto const* name :
         {"a.gguf",
          "a-00000-of-00003.gguf",
          "a-00004-of-00003.gguf",
          "a-0001-of-00003.gguf",
          "a-00001-of-3.gguf",
          "a-00001-of-0000x.gguf",
          "a_00001-of-00003.gguf",
          "-00001-of-00003.gguf"}) {
        EXPECT_EQ(parse_part_name(name), std::nullopt) << name;
    }
}

} // namespace
} // namespace exo::model::gguf
