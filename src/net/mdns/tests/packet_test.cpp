// SPDX-License-Identifier: Apache-2.0
//
// DNS packets: recorded ones of rust, js and go (testdata/libp2p/wire.json), and broken ones.
#include "net/mdns/packet.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace exo::net::mdns {
namespace {

using Json = nlohmann::json;

Bytes hex(std::string_view text) {
    return from_hex(text).value();
}

Json recorded() {
    std::ifstream file(EXO_SOURCE_DIR "/testdata/libp2p/wire.json");
    EXPECT_TRUE(file.is_open());
    return Json::parse(file).at("mdns");
}

// The record as the recorder wrote it down; types that we do not read are left out.
Json described(Record const& record, std::string const& section) {
    Json json{{"section", section}, {"name", record.name.text()}, {"ttl", record.ttl_s}};
    json["class"] = record.record_class == class_in ? "0001" : "8001";
    if (record.type == type_ptr) {
        json["type"] = "PTR";
        json["value"] = record.target.text();
    } else {
        json["type"] = "TXT";
        json["value"] = record.texts;
    }
    return json;
}

Json described(Packet const& packet) {
    Json json = Json::array();
    auto const add = [&](std::vector<Record> const& records, std::string const& section) {
        for (auto const& record : records) {
            if (record.type == type_ptr || record.type == type_txt) {
                json.push_back(described(record, section));
            }
        }
    };
    add(packet.answers, "answer");
    add(packet.additional, "additional");
    return json;
}

TEST(MdnsPacket, every_recorded_packet_of_rust_js_and_go_is_read_as_it_was_described) {
    std::size_t count = 0;
    auto const scenes = recorded();
    for (auto const& scene : scenes) {
        for (auto const& entry : scene) {
            auto const packet = decode(hex(entry.at("hex").get<std::string>()));
            ASSERT_TRUE(packet) << packet.error().text();
            EXPECT_EQ(packet->id, entry.at("id"));
            EXPECT_EQ(packet->is_response, entry.at("flags") != "0000");
            EXPECT_EQ(packet->questions.size(), entry.at("questions").size());
            Json expected = Json::array();
            for (auto const& record : entry.at("records")) {
                bool const is_read = record.at("type") == "PTR" || record.at("type") == "TXT";
                if (is_read && record.at("section") != "authority") {
                    expected.push_back(record);
                }
            }
            EXPECT_EQ(described(*packet), expected);
            ++count;
        }
    }
    EXPECT_GE(count, 12U);
}

TEST(MdnsPacket, a_query_is_written_as_rust_writes_it) {
    Packet packet{.id = 0xde25};
    packet.questions.push_back({.name = Name::of("_p2p._udp.local")});
    auto const expected = hex("de2500000001000000000000045f703270045f756470056c6f63616c00000c0001");
    EXPECT_EQ(encode(packet), expected);
    EXPECT_EQ(decode(expected).value(), packet);
}

TEST(MdnsPacket, a_response_is_written_and_read_alike) {
    Packet packet{.id = 7, .is_response = true};
    auto const name = Name::of("abc._p2p._udp.local");
    packet.answers.push_back(
        {.name = Name::of("_p2p._udp.local"), .type = type_ptr, .ttl_s = 2500, .target = name}
    );
    packet.additional.push_back({
        .name = name,
        .type = type_txt,
        .record_class = class_in | cache_flush,
        .ttl_s = 0x01020304,
        .texts = {"dnsaddr=x", "", std::string(255, 'y')},
    });
    EXPECT_EQ(decode(encode(packet)).value(), packet);
}

TEST(MdnsPacket, no_cut_of_a_packet_is_read_as_a_whole_one) {
    auto const scenes = recorded();
    for (auto const& scene : scenes) {
        for (auto const& entry : scene) {
            auto const bytes = hex(entry.at("hex").get<std::string>());
            for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
                ASSERT_FALSE(decode(BytesView(bytes).first(cut))) << cut;
            }
        }
    }
}

TEST(MdnsPacket, names_are_compared_without_case) {
    EXPECT_EQ(Name::of("_P2P._udp.Local"), Name::of("_p2p._udp.local"));
    EXPECT_NE(Name::of("_p2p._udp"), Name::of("_p2p._udp.local"));
}

constexpr char const* one_question = "0000 0000 0001 0000 0000 0000";

struct BrokenRow {
    char const* name;
    std::string bytes;
};

class Broken : public testing::TestWithParam<BrokenRow> {};

TEST_P(Broken, is_refused) {
    auto const packet = decode(hex(GetParam().bytes));
    ASSERT_FALSE(packet);
    EXPECT_EQ(packet.error().code(), Errc::protocol) << packet.error().text();
}

INSTANTIATE_TEST_SUITE_P(
    Packet,
    Broken,
    testing::Values(
        BrokenRow{"empty", ""},
        BrokenRow{"pointer_to_itself", std::string(one_question) + "c00c 000c 0001"},
        BrokenRow{"pointer_forwards", std::string(one_question) + "c012 000c 0001 0161 00"},
        BrokenRow{"pointers_in_a_circle", std::string(one_question) + "0161 c00e c00c 0001"},
        BrokenRow{"pointer_behind_the_end", std::string(one_question) + "ffff 000c 0001"},
        BrokenRow{"label_too_long", std::string(one_question) + "40" + std::string(160, '6')},
        BrokenRow{"label_behind_the_end", std::string(one_question) + "3f 61"},
        BrokenRow{"no_question_there", one_question},
        BrokenRow{
            "text_behind_its_record",
            "0000 8400 0000 0001 0000 0000 00 0010 0001 00000001 0002 0561 62636465"
        },
        BrokenRow{
            "data_behind_the_end", "0000 8400 0000 0001 0000 0000 00 0010 0001 00000001 00ff 0161"
        }
    ),
    [](auto const& row) { return row.param.name; }
);

TEST(MdnsPacket, a_name_of_more_than_255_bytes_is_refused) {
    Bytes bytes = hex(one_question);
    for (int i = 0; i < 5; ++i) {
        bytes.push_back(60);
        bytes.insert(bytes.end(), 60, 'a');
    }
    append(bytes, hex("00 000c 0001"));
    EXPECT_EQ(decode(bytes).error().code(), Errc::protocol);
}

TEST(MdnsPacket, too_many_entries_or_bytes_are_refused) {
    EXPECT_EQ(decode(hex("0000 0000 ffff 0000 0000 0000")).error().code(), Errc::limit);
    EXPECT_EQ(decode(Bytes(packet_bytes_max + 1)).error().code(), Errc::limit);
}

TEST(MdnsPacket, authority_records_and_other_types_are_skipped) {
    auto const packet = decode(hex("0000 8400 0000 0000 0001 0001"
                                   "00 0010 0001 00000001 0002 0161"
                                   "00 0001 0001 00000001 0004 7f000001"))
                            .value();
    EXPECT_TRUE(packet.answers.empty());
    ASSERT_EQ(packet.additional.size(), 1U);
    EXPECT_EQ(packet.additional[0].type, 1);
}

} // namespace
} // namespace exo::net::mdns
