// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "gguf_bytes.hpp"
#include "model/gguf/header.hpp"

#include <gtest/gtest.h>

namespace exo::model::gguf {
namespace {

using tests::File;
using tests::small_llama;
using tests::Writer;

Result<Parsed> parse(Bytes const& bytes) {
    return parse_header(bytes, bytes.size());
}

Result<Parsed> parse(std::string_view text) {
    return parse_header(as_bytes(text), text.size());
}

Header header_of(Bytes const& bytes) {
    auto const parsed = parse(bytes);
    EXPECT_TRUE(parsed) << parsed.error().text();
    return parsed ? std::get<Header>(*parsed) : Header{};
}

// The error's text must say this.
template <class Input>
void expect_refused(Input const& input, Errc code, std::string_view says) {
    auto const parsed = parse(input);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code(), code) << parsed.error().text();
    EXPECT_NE(parsed.error().text().find(says), std::string::npos) << parsed.error().text();
}

TEST(GgufHeader, golden_bytes_of_the_format) {
    // Written by hand after docs/gguf.md: version 3, one tensor, one metadata entry.
    auto const bytes = *from_hex(
        "47475546 03000000 0100000000000000 0100000000000000"
        "0300000000000000 612e62 05000000 feffffff"              // "a.b" = int32 -2
        "0100000000000000 74 01000000 2000000000000000 02000000" // "t", 32 elements of q4_0
        "0000000000000000"                                       // at offset 0
        "0000000000000000000000000000000000000000"               // padding from 76 to 96
        "000000000000000000000000000000000000"                   // 18 bytes of data
    );
    auto const header = header_of(bytes);
    EXPECT_EQ(std::get<std::int64_t>(header.metadata.at("a.b")), -2);
    ASSERT_EQ(header.tensors.size(), 1u);
    EXPECT_EQ(
        header.tensors[0],
        (TensorInfo{.name = "t", .dimensions = {32, 1, 1, 1}, .type = 2, .offset = 0, .bytes = 18})
    );
    EXPECT_EQ(header.data_offset, 96u);
    EXPECT_EQ(header.tensor_bytes, 18u);
    EXPECT_EQ(header.file_bytes, bytes.size());
    EXPECT_TRUE(check_complete(header, bytes.size()));
}

TEST(GgufHeader, versions_two_and_three_have_the_same_layout) {
    auto const three = header_of(small_llama().bytes(3));
    auto two = header_of(small_llama().bytes(2));
    EXPECT_EQ(two.version, 2u);
    two.version = 3;
    EXPECT_EQ(two, three);
}

TEST(GgufHeader, metadata_of_every_kind_is_read) {
    auto const header = header_of(small_llama().bytes());
    EXPECT_EQ(*find_string(header, "general.architecture"), "llama");
    EXPECT_EQ(find_unsigned(header, "llama.block_count"), 2u);
    EXPECT_EQ(std::get<double>(header.metadata.at("llama.rope.freq_base")), 10000.0);
    EXPECT_EQ(std::get<bool>(header.metadata.at("tokenizer.ggml.add_bos_token")), true);
    EXPECT_EQ(find_array(header, "tokenizer.ggml.tokens")->count, 3u);
    EXPECT_EQ(find_unsigned(header, "general.architecture"), std::nullopt);
    EXPECT_EQ(find_unsigned(header, "tokenizer.ggml.add_bos_token"), std::nullopt);
    EXPECT_EQ(find_string(header, "llama.block_count"), nullptr);
    EXPECT_EQ(find_array(header, "no.such.key"), nullptr);
}

TEST(GgufHeader, short_integer_arrays_are_kept_and_long_ones_counted) {
    File file;
    file.u32s("short", {7, 0, 9}).u32s("long", std::vector<std::uint32_t>(5000, 1));
    auto const header = header_of(file.bytes());
    EXPECT_EQ(find_array(header, "short")->integers, (std::vector<std::int64_t>{7, 0, 9}));
    EXPECT_EQ(find_array(header, "long")->count, 5000u);
    EXPECT_TRUE(find_array(header, "long")->integers.empty());
}

TEST(GgufHeader, a_prefix_says_how_much_more_it_needs) {
    auto const bytes = small_llama().bytes();
    auto const whole = header_of(bytes);
    std::uint64_t need_before = 0;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        auto const parsed = parse_header(BytesView(bytes).first(size), bytes.size());
        ASSERT_TRUE(parsed) << parsed.error().text();
        if (auto const* more = std::get_if<NeedMore>(&*parsed)) {
            ASSERT_GT(more->bytes, size);
            ASSERT_LE(more->bytes, whole.data_offset);
            ASSERT_GE(more->bytes, need_before);
            need_before = more->bytes;
        } else {
            ASSERT_EQ(std::get<Header>(*parsed), whole);
            return; // All further prefixes hold the header.
        }
    }
    FAIL() << "never parsed";
}

TEST(GgufHeader, every_truncation_of_the_header_is_refused_as_one) {
    auto const bytes = small_llama().bytes();
    auto const whole = header_of(bytes);
    for (std::size_t size = 1; size < bytes.size(); ++size) {
        auto const parsed = parse(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(size)));
        if (parsed) {
            // Only data is missing: check_complete() sees it.
            ASSERT_FALSE(check_complete(std::get<Header>(*parsed), size)) << size;
        } else {
            ASSERT_EQ(parsed.error().code(), Errc::corrupt);
            ASSERT_NE(parsed.error().text().find("truncated"), std::string::npos)
                << size << ": " << parsed.error().text();
        }
    }
    EXPECT_TRUE(check_complete(whole, bytes.size()));
}

TEST(GgufHeader, B056_a_file_cut_short_names_the_tensor_that_is_missing) {
    auto const bytes = small_llama().bytes();
    auto const header = header_of(bytes);
    auto const checked = check_complete(header, bytes.size() - 1);
    ASSERT_FALSE(checked);
    EXPECT_EQ(
        checked.error().text(),
        "truncated: the file is " + std::to_string(bytes.size() - 1) +
            " bytes, tensor 'blk.0.attn_q.weight' needs " + std::to_string(bytes.size()) +
            " (all tensors: " + std::to_string(bytes.size()) + ")"
    );
}

TEST(GgufHeader, what_is_not_gguf_is_refused_with_what_it_seems_to_be) {
    expect_refused(std::string_view(""), Errc::corrupt, "empty");
    expect_refused(std::string_view("G"), Errc::corrupt, "truncated");
    expect_refused(
        std::string_view("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        Errc::corrupt,
        "git-lfs text pointer"
    );
    expect_refused(std::string_view("<!DOCTYPE html><html>"), Errc::corrupt, "web page");
    expect_refused(std::string_view("PK\x03\x04 zip"), Errc::corrupt, "zip");
    expect_refused(
        std::string_view("\x10\0\0\0\0\0\0\0{\"a\":1}", 15), Errc::corrupt, "safetensors"
    );
    expect_refused(std::string_view("\x01\x02\x03\x04 junk"), Errc::corrupt, "01020304");
}

TEST(GgufHeader, other_versions_and_the_other_byte_order_are_refused) {
    expect_refused(small_llama().bytes(1), Errc::unsupported, "version 1");
    expect_refused(small_llama().bytes(4), Errc::unsupported, "version 4");
    expect_refused(small_llama().bytes(0x03000000), Errc::unsupported, "byte order");
}

// A header that begins well; the counts and what follows are the caller's.
Writer begin(std::uint64_t tensors, std::uint64_t metadata) {
    Writer file;
    file.raw("GGUF").number(std::uint32_t{3}).number(tensors).number(metadata);
    return file;
}

TEST(GgufHeader, absurd_counts_and_lengths_are_refused_before_they_cost_anything) {
    expect_refused(begin(std::uint64_t{1} << 60, 0).bytes(), Errc::corrupt, "absurd");
    expect_refused(begin(0, std::uint64_t{1} << 60).bytes(), Errc::corrupt, "absurd");
    auto key = begin(0, 1);
    key.number(~std::uint64_t{0}).raw("key");
    expect_refused(key.bytes(), Errc::corrupt, "absurd");
    for (std::uint32_t const type : {0u, 4u, 6u, 8u, 10u}) {
        auto array = begin(0, 1);
        array.text("k").number(std::uint32_t{9}).number(type).number(~std::uint64_t{0} / 2);
        expect_refused(array.bytes(), Errc::corrupt, "absurd");
    }
}

TEST(GgufHeader, contradictions_are_refused_by_name) {
    auto array = begin(0, 1);
    array.text("k").number(std::uint32_t{9}).number(std::uint32_t{9}).number(std::uint64_t{1});
    expect_refused(array.bytes(), Errc::corrupt, "unknown type 9");
    auto scalar = begin(0, 1);
    scalar.text("k").number(std::uint32_t{77});
    expect_refused(scalar.bytes(), Errc::corrupt, "'k'");
    expect_refused(File().u32("k", 1).u32("k", 2).bytes(), Errc::corrupt, "'k' is there twice");
    expect_refused(File().u32("", 1).bytes(), Errc::corrupt, "no name");
    expect_refused(File().u32("general.alignment", 48).bytes(), Errc::corrupt, "general.alignment");
    expect_refused(File().text("general.alignment", "x").bytes(), Errc::corrupt, "alignment");
    expect_refused(
        File().tensor({"t", {1}, 0, 4}).tensor({"t", {1}, 0, 4}).bytes(), Errc::corrupt, "twice"
    );
    expect_refused(
        File().tensor({"t", {1, 1, 1, 1, 1}, 0, 4}).bytes(), Errc::corrupt, "5 dimensions"
    );
    expect_refused(File().tensor({"t", {1}, 4, 4}).bytes(), Errc::unsupported, "unknown type 4");
    expect_refused(File().tensor({"t", {1}, 99, 4}).bytes(), Errc::unsupported, "unknown type 99");
    expect_refused(File().tensor({"t", {33}, 2, 4}).bytes(), Errc::corrupt, "blocks of 32");
    expect_refused(
        File().tensor({std::string(64, 'n'), {1}, 0, 4}).bytes(), Errc::corrupt, "tensor 0"
    );
}

TEST(GgufHeader, sizes_that_overflow_are_refused) {
    std::uint64_t const huge = std::uint64_t{1} << 40;
    expect_refused(File().tensor({"t", {huge, huge}, 0, 4}).bytes(), Errc::corrupt, "absurdly");
    expect_refused(
        File().tensor({"t", {~std::uint64_t{0}}, 0, 4}).bytes(), Errc::corrupt, "absurdly"
    );
    expect_refused(
        File().tensor({"t", {std::uint64_t{1} << 62}, 28, 4}).bytes(), Errc::corrupt, "absurdly"
    );
    // Zero elements are no overflow.
    EXPECT_EQ(header_of(File().tensor({"t", {0, huge}, 0, 0}).bytes()).tensor_bytes, 0u);
}

TEST(GgufHeader, tensors_must_follow_each_other) {
    auto file = begin(1, 0);
    file.text("t").number(std::uint32_t{1}).number(std::uint64_t{1}).number(std::uint32_t{0});
    file.number(std::uint64_t{64}).pad_to(32).zeros(128);
    expect_refused(file.bytes(), Errc::corrupt, "at offset 64, expected 0");
}

TEST(GgufHeader, a_header_over_the_limit_is_refused) {
    auto const bytes = small_llama().bytes();
    Limits const limits{.header_bytes_max = 100};
    auto const parsed = parse_header(bytes, bytes.size(), limits);
    ASSERT_FALSE(parsed);
    EXPECT_NE(parsed.error().text().find("over 100 bytes"), std::string::npos);
}

TEST(GgufHeader, random_changes_never_crash_it) {
    auto const bytes = small_llama().bytes();
    auto const header_bytes = header_of(bytes).data_offset;
    Random random(56);
    for (int round = 0; round < 20'000; ++round) {
        auto changed = bytes;
        for (std::uint64_t i = 0; i <= random.below(4); ++i) {
            changed[random.below(header_bytes)] = static_cast<std::uint8_t>(random.next());
        }
        if (random.chance(1, 4)) {
            changed.resize(random.below(changed.size()));
        }
        auto const parsed = parse(changed);
        // The whole file is there, so it cannot ask for more.
        ASSERT_TRUE(!parsed || std::holds_alternative<Header>(*parsed));
    }
}

TEST(GgufHeader, every_tensor_type_has_whole_blocks) {
    for (auto const& type : tensor_types) {
        EXPECT_EQ(type.name.empty(), type.block_elements == 0);
        EXPECT_EQ(type.name.empty(), type.block_bytes == 0);
    }
    EXPECT_EQ(tensor_types[12].name, "q4_K");
    EXPECT_EQ(tensor_types[30].name, "bf16");
    EXPECT_EQ(tensor_types[39].name, "mxfp4");
    EXPECT_EQ(tensor_types[42].name, "q2_0");
}

} // namespace
} // namespace exo::model::gguf
