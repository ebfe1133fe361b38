// SPDX-License-Identifier: Apache-2.0
#include "core/replica/message.hpp"

#include "base/overloaded.hpp"
#include "model/json_codec.hpp"

#include <fmt/core.h>

namespace exo::election {

EXO_DESCRIBE(Ballot, clock, seniority, commands_seen, node_id, boot)
EXO_DESCRIBE(Standing, ballot, seq, session, head)

} // namespace exo::election

namespace exo::replica {

EXO_DESCRIBE(Record, position, event, chain)
EXO_DESCRIBE(Snapshot, position, chain, state)
EXO_DESCRIBE(Beat, boot, uptime_ms, report_id, session, applied, ballot, standing)
EXO_DESCRIBE(ProposedSession, master_node_id, election_clock)
EXO_DESCRIBE(
    ElectionMessage, clock, seniority, proposed_session, commands_seen, boot, uptime_ms, standing
)
EXO_DESCRIBE(CommandRequest, command_id, command)
EXO_DESCRIBE_ENUM(Verdict, accepted, invalid_argument, not_found, conflict, unavailable, not_master)
EXO_DESCRIBE(CommandAnswer, command_id, verdict, instance_id, reason, standing)
EXO_DESCRIBE(LevelSubmission, session, report_id, events)
EXO_DESCRIBE(JoinRequest, session, boot, lineage, position, report)
EXO_DESCRIBE(JoinAccepted, session, report_id)
EXO_DESCRIBE(Rejoin, session, report_id)
EXO_DESCRIBE(RangeRequest, session, after, snapshot)
EXO_DESCRIBE(RangeAnswer, session, records, snapshot)
EXO_DESCRIBE(TailRequest, after)
EXO_DESCRIBE(TailAnswer, after, records, snapshot)
EXO_DESCRIBE(Gossip, to, message)

} // namespace exo::replica

EXO_INSTANTIATE_CODEC(exo::replica::Message)
EXO_INSTANTIATE_CODEC(exo::replica::ElectionMessage)
EXO_INSTANTIATE_CODEC(exo::replica::Gossip)

namespace exo::replica {

ElectionMessage election_message(
    election::Ballot const& ballot,
    std::optional<election::Standing> const& standing,
    std::uint64_t uptime_ms
) {
    return {
        .clock = ballot.clock,
        .seniority = ballot.seniority,
        .proposed_session = {ballot.node_id, ballot.clock},
        .commands_seen = ballot.commands_seen,
        .boot = ballot.boot,
        .uptime_ms = uptime_ms,
        .standing = standing,
    };
}

election::Ballot ballot_of(ElectionMessage const& message) {
    return {
        .clock = message.clock,
        .seniority = message.seniority,
        .commands_seen = message.commands_seen,
        .node_id = message.proposed_session.master_node_id,
        .boot = message.boot,
    };
}

std::string_view protocol_of(Message const& message) {
    return std::visit(
        Overloaded{
            [](Beat const&) { return alive_protocol; },
            [](ElectionMessage const&) { return alive_protocol; },
            [](CommandRequest const&) { return command_protocol; },
            [](CommandAnswer const&) { return command_protocol; },
            [](LevelSubmission const&) { return events_protocol; },
            [](model::NodeInfo const&) { return events_protocol; },
            [](Record const&) { return events_protocol; },
            [](JoinRequest const&) { return log_protocol; },
            [](JoinAccepted const&) { return log_protocol; },
            [](Rejoin const&) { return log_protocol; },
            [](RangeRequest const&) { return log_protocol; },
            [](RangeAnswer const&) { return log_protocol; },
            [](TailRequest const&) { return log_protocol; },
            [](TailAnswer const&) { return log_protocol; },
        },
        message
    );
}

std::string_view name_of(Message const& message) {
    return std::visit(
        [](auto const& alternative) { return described_name(&alternative); }, message
    );
}

Bytes encode(Message const& message) {
    return model::to_msgpack(message);
}

Result<Message> decode(BytesView bytes) {
    if (bytes.size() > message_bytes_max) {
        return Error(
            Errc::limit,
            fmt::format("message of {} bytes, at most {} allowed", bytes.size(), message_bytes_max)
        );
    }
    return model::from_msgpack<Message>(bytes);
}

// The seeds' shape has a topic of its own, so it needs no tag there.
std::string encode_gossip(Gossip const& gossip) {
    auto const* const election = std::get_if<ElectionMessage>(&gossip.message);
    return model::to_text(
        election ? model::to_json(*election, model::Naming::snake)
                 : model::to_json(gossip, model::Naming::snake)
    );
}

Result<Gossip> decode_gossip(std::string_view text) {
    if (text.size() > gossip_bytes_max) {
        return Error(
            Errc::limit,
            fmt::format("gossip of {} bytes, at most {} allowed", text.size(), gossip_bytes_max)
        );
    }
    auto const json = model::parse_json(text);
    if (!json) {
        return json.error();
    }
    if (!json->contains("proposed_session")) {
        return model::from_json<Gossip>(*json);
    }
    auto election = model::from_json<ElectionMessage>(*json);
    if (!election) {
        return election.error();
    }
    return Gossip{std::nullopt, std::move(*election)};
}

} // namespace exo::replica
