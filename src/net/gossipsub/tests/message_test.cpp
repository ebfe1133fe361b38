// SPDX-License-Identifier: Apache-2.0
//
// Signatures and ids of messages: vectors of js and rust, all spoiled copies, every broken rule.
#include "gossip_fixture.hpp"

namespace exo::net::gossipsub {
namespace {

Result<SignedMessage> check(BytesView encoded) {
    auto parsed = parse_message(encoded);
    if (!parsed) {
        return parsed.error();
    }
    return verify_message(std::move(*parsed));
}

pb::Message message_of(Bytes const& encoded) {
    pb::Message message;
    EXPECT_TRUE(message.ParseFromArray(encoded.data(), static_cast<int>(encoded.size())));
    return message;
}

Bytes bytes_of(pb::Message const& message) {
    auto const text = message.SerializeAsString();
    return {text.begin(), text.end()};
}

// The only message of an RPC.
Bytes message_in(Bytes const& rpc) {
    auto const parsed = rpc_of(rpc);
    EXPECT_EQ(parsed.publish_size(), 1);
    auto const& text = parsed.publish(0);
    return {text.begin(), text.end()};
}

Bytes signed_hello() {
    return *sign_message(identity(2), 1, "a", as_bytes("hello")).encoded;
}

auto const rust_rpc =
    hex("1280010a260024080112208139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b3941207"
        "68656c6c6f20301a0818ec86607df0a96f2201612a402f0cfcf9c35391255749bf87c99717e82ce85ed7e529b7"
        "f51c69eb79a3c201a8600637042f967fc06d65f064af8cb60f87dfc4c7242e2603106fe3ef9304ea08");

TEST(GossipMessage, of_js_are_valid_have_rusts_id_and_are_signed_by_us_alike) {
    auto const file = vectors("js.json");
    auto const number = std::uint64_t{0x17979cfe362a0001};
    for (auto const& entry : file.at("gossipsub")) {
        auto const text = [&](char const* key) { return entry.at(key).get<std::string>(); };
        auto const message = check(hex(text("message")));
        ASSERT_TRUE(message) << message.error().text();
        EXPECT_EQ(message->author, peer(1));
        EXPECT_EQ(message->topic, text("topic"));
        EXPECT_EQ(to_hex(message->data), text("data"));
        EXPECT_EQ(message->id, text("rust_message_id_text"));
        EXPECT_EQ(*message->encoded, message_in(hex(text("rpc"))));
        EXPECT_TRUE(check(hex(text("message_without_key"))));
        if (message->id == message_id(peer(1), number)) {
            auto const ours = sign_message(identity(1), number, text("topic"), message->data);
            EXPECT_EQ(to_hex(*ours.encoded), text("message_without_key"));
        }
    }
}

TEST(GossipMessage, of_rust_is_valid_and_ours_is_the_same_byte_for_byte) {
    auto const message = check(message_in(rust_rpc));
    ASSERT_TRUE(message) << message.error().text();
    EXPECT_EQ(as_text(message->data), "hello 0");
    auto const ours = sign_message(identity(2), 0x18ec86607df0a96f, "a", as_bytes("hello 0"));
    EXPECT_EQ(*ours.encoded, message_in(rust_rpc));
    EXPECT_EQ(ours.id, message->id);
}

TEST(GossipMessage, all_recorded_sessions_hold_valid_messages) {
    int count = 0;
    auto const file = vectors("wire.json");
    for (auto const& session : file.at("sessions")) {
        for (auto const& entry : session.at("gossipsub_rpcs")) {
            auto const bytes = hex(entry.at("with_length_prefix").get<std::string>());
            std::ptrdiff_t const prefix = bytes[0] < 0x80 ? 1 : bytes[1] < 0x80 ? 2 : 3;
            auto const rpc = rpc_of({bytes.begin() + prefix, bytes.end()});
            for (auto const& text : rpc.publish()) {
                auto const message = check(as_bytes(text));
                EXPECT_TRUE(message) << message.error().text();
                ++count;
            }
        }
    }
    EXPECT_GE(count, 8);
}

TEST(GossipMessage, without_data_is_signed_with_an_empty_field) {
    auto const message = sign_message(identity(1), 1, "t", {});
    EXPECT_TRUE(message_of(*message.encoded).has_data());
    EXPECT_TRUE(check(*message.encoded));
}

TEST(GossipMessage, any_changed_bit_is_noticed) {
    auto const good = signed_hello();
    ASSERT_TRUE(check(good));
    for (std::size_t i = 0; i < good.size() * 8; ++i) {
        auto bad = good;
        bad[i / 8] = static_cast<std::uint8_t>(bad[i / 8] ^ (1U << (i % 8)));
        ASSERT_FALSE(check(bad)) << "bit " << i;
    }
}

TEST(GossipMessage, unknown_fields_are_skipped) {
    auto message = signed_hello();
    append(message, hex("f8 07 05"));
    EXPECT_TRUE(check(message));
}

struct BrokenRow {
    char const* name;
    void (*spoil)(pb::Message&);
};

class Broken : public testing::TestWithParam<BrokenRow> {};

TEST_P(Broken, is_refused) {
    auto message = message_of(signed_hello());
    GetParam().spoil(message);
    auto const result = check(bytes_of(message));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::protocol);
}

std::string text_of(Bytes const& bytes) {
    return std::string(as_text(bytes));
}

INSTANTIATE_TEST_SUITE_P(
    StrictMode,
    Broken,
    testing::Values(
        BrokenRow{"no_author", [](pb::Message& m) { m.clear_from(); }},
        BrokenRow{"no_peer_id", [](pb::Message& m) { m.set_from("somebody"); }},
        BrokenRow{"another_author", [](pb::Message& m) { m.set_from(text_of(peer(3).bytes())); }},
        BrokenRow{"no_signature", [](pb::Message& m) { m.clear_signature(); }},
        BrokenRow{"short_signature", [](pb::Message& m) { m.mutable_signature()->pop_back(); }},
        BrokenRow{"no_topic", [](pb::Message& m) { m.clear_topic(); }},
        BrokenRow{"other_topic", [](pb::Message& m) { m.set_topic("b"); }},
        BrokenRow{"other_data", [](pb::Message& m) { m.set_data("jello"); }},
        BrokenRow{"no_data", [](pb::Message& m) { m.clear_data(); }},
        BrokenRow{"no_number", [](pb::Message& m) { m.clear_seqno(); }},
        BrokenRow{"short_number", [](pb::Message& m) { m.set_seqno("1234567"); }},
        BrokenRow{"empty_number", [](pb::Message& m) { m.set_seqno(""); }},
        BrokenRow{"garbage_key", [](pb::Message& m) { m.set_key("key"); }},
        BrokenRow{
            "key_of_another",
            [](pb::Message& m) { m.set_key(text_of(to_protobuf(identity(3).public_key()))); }
        }
    ),
    [](auto const& row) { return row.param.name; }
);

TEST(GossipMessage, the_key_may_be_there_when_it_is_the_authors) {
    auto message = message_of(signed_hello());
    message.set_key(text_of(to_protobuf(identity(2).public_key())));
    EXPECT_TRUE(check(bytes_of(message)));
}

TEST(GossipMessage, garbage_is_no_message) {
    EXPECT_FALSE(parse_message(as_bytes("\xff\xff\xff")));
    EXPECT_FALSE(parse_message({}));
}

} // namespace
} // namespace exo::net::gossipsub
