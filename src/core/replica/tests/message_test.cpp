// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "core/replica/message.hpp"

#include <gtest/gtest.h>

namespace exo::replica {
namespace {

model::Session const session{model::NodeId("a"), 7, 0xfedcba9876543210};
election::Ballot const ballot{7, 3, 12, model::NodeId("a"), 99};
election::Standing const standing{ballot, 5, session, 41};
Record const record{{session, 41}, R"({"NodeTimedOut":{"node_id":"b"}})", std::string(32, 'c')};

model::State state() {
    model::State result;
    result.last_event_applied_idx = 41;
    result.lineage = {{session, 3}};
    result.members[model::NodeId("a")] = {99, {99, 1}, true};
    return result;
}

std::vector<Message> all_messages() {
    Snapshot const snapshot{{session, 41}, std::string(32, 'd'), state()};
    model::Report report;
    report.node_id = model::NodeId("b");
    report.report_id = {5, 2};
    model::NodeInfo info;
    info.node_id = model::NodeId("b");
    return {
        Beat{99, 1000, {99, 1}, session, 41, ballot, standing},
        Beat{.boot = 99, .ballot = ballot},
        election_message(ballot, standing, 1000),
        election_message(ballot, std::nullopt, 1000),
        CommandRequest{model::CommandId("c"), model::DeleteInstance{model::InstanceId("i")}},
        CommandAnswer{model::CommandId("c"), Verdict::conflict, {}, "no room", standing},
        LevelSubmission{session, {5, 2}, {model::NodeTimedOut{model::NodeId("b")}}},
        info,
        record,
        JoinRequest{session, 5, {{session, 3}}, {session, 40}, report},
        JoinAccepted{session, {5, 2}},
        Rejoin{session, {5, 2}},
        RangeRequest{session, {session, 40}, true},
        RangeAnswer{session, {record}, snapshot},
        TailRequest{{session, 40}},
        TailAnswer{{session, 40}, {record}, snapshot},
    };
}

TEST(Message, every_kind_survives_its_bytes) {
    for (auto const& message : all_messages()) {
        auto const decoded = decode(encode(message));
        ASSERT_TRUE(decoded) << name_of(message) << ": " << decoded.error().text();
        EXPECT_EQ(*decoded, message) << name_of(message);
    }
}

TEST(Message, every_kind_survives_its_text) {
    for (auto const& message : all_messages()) {
        bool const has_receiver = !std::holds_alternative<ElectionMessage>(message);
        Gossip const gossip{
            has_receiver ? std::optional(model::NodeId("z")) : std::nullopt, message
        };
        auto const decoded = decode_gossip(encode_gossip(gossip));
        ASSERT_TRUE(decoded) << name_of(message) << ": " << decoded.error().text();
        EXPECT_EQ(*decoded, gossip) << name_of(message);
    }
}

TEST(Message, every_cut_of_the_bytes_is_an_error) {
    for (auto const& message : all_messages()) {
        auto const bytes = encode(message);
        for (std::size_t size = 0; size < bytes.size(); ++size) {
            ASSERT_FALSE(decode(BytesView(bytes).first(size))) << name_of(message) << " " << size;
        }
    }
}

TEST(Message, changed_bytes_never_do_harm) {
    Random random(1);
    for (auto const& message : all_messages()) {
        for (int i = 0; i < 300; ++i) {
            auto bytes = encode(message);
            bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.below(256));
            if (auto const decoded = decode(bytes)) {
                (void)encode(*decoded);
            }
        }
    }
}

TEST(Message, a_ballot_has_the_shape_of_old) {
    EXPECT_EQ(
        encode_gossip({std::nullopt, election_message(ballot, std::nullopt, 1000)}),
        R"({"boot":99,"clock":7,"commands_seen":12,)"
        R"("proposed_session":{"election_clock":7,"master_node_id":"a"},)"
        R"("seniority":3,"standing":null,"uptime_ms":1000})"
    );
}

TEST(Message, a_ballot_comes_back_as_it_was) {
    EXPECT_EQ(ballot_of(election_message(ballot, standing, 0)), ballot);
}

TEST(Message, too_long_a_message_is_refused) {
    Bytes const bytes(message_bytes_max + 1);
    EXPECT_EQ(decode(bytes).error().code(), Errc::limit);
    std::string const text(gossip_bytes_max + 1, ' ');
    EXPECT_EQ(decode_gossip(text).error().code(), Errc::limit);
}

TEST(Message, gossip_that_is_no_message_is_an_error) {
    for (auto const* const text :
         {"", "{", "[]", "7", "{}", R"({"message":{"Nothing":{}}})", R"({"proposed_session":7})"}) {
        EXPECT_FALSE(decode_gossip(text)) << text;
    }
}

TEST(Message, each_kind_has_its_protocol) {
    EXPECT_EQ(protocol_of(Beat{}), "/exo/alive/1.0.0");
    EXPECT_EQ(protocol_of(CommandRequest{}), "/exo/command/1.0.0");
    EXPECT_EQ(protocol_of(LevelSubmission{}), "/exo/events/1.0.0");
    EXPECT_EQ(protocol_of(RangeAnswer{}), "/exo/log/1.0.0");
}

} // namespace
} // namespace exo::replica
