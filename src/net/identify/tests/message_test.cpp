// SPDX-License-Identifier: Apache-2.0
//
// Identify messages as rust, js and go sent them (testdata/libp2p/wire.json), and the limits.
#include "net/identify/message.hpp"
#include "net/wire/varint.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace exo::net::identify {
namespace {

nlohmann::json recorded() {
    std::ifstream file(EXO_SOURCE_DIR "/testdata/libp2p/wire.json");
    EXPECT_TRUE(file.is_open());
    return nlohmann::json::parse(file);
}

// The messages of a session, without their length prefixes.
std::vector<Bytes> messages_of(nlohmann::json const& session) {
    std::vector<Bytes> messages;
    for (auto const& entry : session.at("identify")) {
        auto const bytes = from_hex(entry.at("with_length_prefix").get<std::string>()).value();
        auto const length = read_varint(bytes).value().value();
        messages.emplace_back(
            bytes.begin() + static_cast<std::ptrdiff_t>(length.bytes_count), bytes.end()
        );
        EXPECT_EQ(messages.back().size(), length.value);
    }
    return messages;
}

Bytes bytes_of(std::string const& text) {
    return {text.begin(), text.end()};
}

bool has(Message const& message, std::string const& protocol_name) {
    return std::ranges::find(message.protocols, protocol_name) != message.protocols.end();
}

TEST(Identify, all_recorded_messages_of_rust_js_and_go_are_read) {
    std::size_t count = 0;
    auto const vectors = recorded();
    for (auto const& session : vectors.at("sessions")) {
        for (auto const& bytes : messages_of(session)) {
            auto const message = decode(bytes);
            ASSERT_TRUE(message) << message.error().text();
            EXPECT_TRUE(message->public_key);
            EXPECT_TRUE(has(*message, "/ipfs/id/1.0.0"));
            EXPECT_TRUE(has(*message, "/meshsub/1.1.0"));
            EXPECT_FALSE(message->agent_version.empty());
            EXPECT_EQ(decode(encode(*message)).value(), *message);
            ++count;
        }
    }
    EXPECT_GE(count, 8U);
}

TEST(Identify, a_message_of_rust_says_all_that_it_holds) {
    auto const messages = messages_of(recorded().at("sessions").at("rust-dials-rust"));
    auto const message = decode(messages.at(0)).value();
    EXPECT_EQ(message.protocol_version, "interop/1.0.0");
    EXPECT_EQ(message.agent_version, "rust-libp2p/0.47.0");
    EXPECT_EQ(
        PeerId::of(*message.public_key).text(),
        "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq"
    );
    ASSERT_EQ(message.listen.size(), 1U);
    EXPECT_TRUE(message.listen.front().text().starts_with("/ip4/127.0.0.1/tcp/"));
    EXPECT_TRUE(message.observed);
}

TEST(Identify, fields_come_in_any_order_and_unknown_ones_are_skipped) {
    auto const bytes = from_hex("32 01 62"     // agent version "b"
                                "42 03 010203" // signed peer record
                                "1a 02 2f78"   // "/x"
                                "f8 07 05"     // field 127, a varint
                                "2a 01 61"     // protocol version "a"
                                "1a 02 2f79")  // "/y"
                           .value();
    auto const message = decode(bytes).value();
    EXPECT_EQ(message.agent_version, "b");
    EXPECT_EQ(message.protocol_version, "a");
    EXPECT_EQ(message.protocols, (std::vector<std::string>{"/x", "/y"}));
    EXPECT_FALSE(message.public_key);
    EXPECT_FALSE(message.observed);
}

TEST(Identify, addresses_and_keys_that_we_cannot_use_are_left_out) {
    auto const bytes = from_hex("0a 04 08001200"         // An RSA key.
                                "12 03 ffff03"           // An unknown address.
                                "12 08 047f000001060fa1" // /ip4/127.0.0.1/tcp/4001
                                "22 01 ff")
                           .value();
    auto const message = decode(bytes).value();
    EXPECT_FALSE(message.public_key);
    ASSERT_EQ(message.listen.size(), 1U);
    EXPECT_EQ(message.listen.front().text(), "/ip4/127.0.0.1/tcp/4001");
    EXPECT_FALSE(message.observed);
}

TEST(Identify, too_long_or_too_many_is_refused) {
    Limits const limits;
    EXPECT_EQ(decode(Bytes(limits.message_bytes_max + 1)).error().code(), Errc::limit);
    Bytes bytes;
    for (std::size_t i = 0; i <= limits.entries_max; ++i) {
        append(bytes, from_hex("1a00").value());
    }
    EXPECT_EQ(decode(bytes).error().code(), Errc::limit);
}

TEST(Identify, a_cut_message_is_refused_or_shorter_but_never_read_beyond) {
    auto const whole = messages_of(recorded().at("sessions").at("js-dials-rust")).at(0);
    for (std::size_t cut = 0; cut < whole.size(); ++cut) {
        auto const message = decode(BytesView(whole).first(cut));
        if (!message) {
            EXPECT_EQ(message.error().code(), Errc::protocol);
        }
    }
    EXPECT_EQ(decode(bytes_of("not a protobuf")).error().code(), Errc::protocol);
}

TEST(Identify, what_rust_would_not_read_is_not_sent) {
    Message message;
    message.protocols = {"/exo/alive/1.0.0"};
    auto const peer = PeerId::parse("12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq").value();
    for (int i = 0; i < 200; ++i) {
        auto const text = "/ip4/10.0.0." + std::to_string(i) + "/tcp/4001";
        message.listen.push_back(Multiaddr::parse(text).value().with_peer(peer));
    }
    auto const bytes = encode(message);
    EXPECT_LE(bytes.size(), message_sent_bytes_max);
    EXPECT_GT(bytes.size(), message_sent_bytes_max - 60);
    auto const read = decode(bytes).value();
    EXPECT_EQ(read.listen.front(), message.listen.front());
    EXPECT_EQ(read.protocols, message.protocols);
}

TEST(Identify, a_push_replaces_each_field_that_it_has_and_no_other) {
    auto const whole = decode(messages_of(recorded().at("sessions").at("rust-dials-rust")).at(0));
    Message known;
    update(known, *whole);
    EXPECT_EQ(known, *whole);
    update(known, {});
    EXPECT_EQ(known, *whole);
    auto const address = Multiaddr::parse("/ip4/10.0.0.1/tcp/4001").value();
    update(known, {.listen = {address}, .agent_version = "new"});
    EXPECT_EQ(known.listen, std::vector{address});
    EXPECT_EQ(known.agent_version, "new");
    EXPECT_EQ(known.protocols, whole->protocols);
    EXPECT_EQ(known.public_key, whole->public_key);
    EXPECT_EQ(known.observed, whole->observed);
    EXPECT_EQ(known.protocol_version, whole->protocol_version);
}

} // namespace
} // namespace exo::net::identify
