// SPDX-License-Identifier: Apache-2.0
//
// Commands: from the local API to the master and back (C1), and their execution there (C2).
#include "core/cluster/decide.hpp"
#include "core/replica/parts.hpp"

#include <fmt/core.h>

namespace exo::replica {
namespace {

[[nodiscard]] Result<model::CommandOutcome>
execute(Parts& parts, model::CommandId const& command_id, model::Command const& command) {
    auto const heard =
        cluster::heard_within(parts.heard, cluster::placement_silence_max, parts.now);
    auto decision =
        cluster::decide(parts.log.state(), parts.observations, command, command_id, heard);
    append(parts, decision.events);
    return std::move(decision.answer);
}

void answer(
    Parts& parts, model::CommandId const& command_id, Result<model::CommandOutcome> outcome
) {
    if (parts.commands.erase(command_id) > 0) {
        parts.outputs.push_back(CommandAnswered{command_id, std::move(outcome)});
    }
}

[[nodiscard]] Verdict verdict_of(Errc code) {
    switch (code) {
    case Errc::invalid_argument:
        return Verdict::invalid_argument;
    case Errc::not_found:
        return Verdict::not_found;
    case Errc::conflict:
        return Verdict::conflict;
    case Errc::unavailable:
    case Errc::timed_out:
    case Errc::cancelled:
    case Errc::limit:
    case Errc::protocol:
    case Errc::corrupt:
    case Errc::io:
    case Errc::unsupported:
    case Errc::internal:
        return Verdict::unavailable;
    }
    return Verdict::unavailable;
}

[[nodiscard]] Errc code_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::invalid_argument:
        return Errc::invalid_argument;
    case Verdict::not_found:
        return Errc::not_found;
    case Verdict::conflict:
        return Errc::conflict;
    case Verdict::unavailable:
    case Verdict::accepted:
    case Verdict::not_master:
        return Errc::unavailable;
    }
    return Errc::unavailable;
}

[[nodiscard]] Error no_answer(model::CommandId const& command_id) {
    return Error(
        Errc::unavailable,
        fmt::format(
            "no master answered within 10 s; the command may still take effect: repeat it with "
            "command id {} to learn its outcome",
            command_id.value()
        )
    );
}

} // namespace

void on_command_requested(Parts& parts, CommandRequested const& in) {
    if (parts.commands.size() >= commands_max && !parts.commands.contains(in.command_id)) {
        parts.outputs.push_back(CommandAnswered{
            in.command_id,
            Error(
                Errc::unavailable,
                fmt::format("{} commands wait for an answer already; try again", commands_max)
            )
        });
        return;
    }
    parts.commands.try_emplace(
        in.command_id, OpenCommand{in.command, parts.now + command_time, parts.now}
    );
}

void on_command_request(Parts& parts, model::NodeId const& from, CommandRequest const& request) {
    CommandAnswer message{.command_id = request.command_id};
    if (!parts.leadership) {
        message.verdict = Verdict::not_master;
        message.standing = election::standing_for_beat(parts.election, facts(parts), parts.now);
    } else if (auto const outcome = execute(parts, request.command_id, request.command)) {
        message.instance_id = outcome->instance_id;
    } else {
        message.verdict = verdict_of(outcome.error().code());
        message.reason = outcome.error().text();
    }
    send_or_publish(parts, from, std::move(message));
}

void on_command_answer(Parts& parts, model::NodeId const& from, CommandAnswer const& message) {
    auto const open = parts.commands.find(message.command_id);
    if (open == parts.commands.end()) {
        return; // Answered already, by the answer to an earlier try.
    }
    if (message.verdict == Verdict::accepted) {
        answer(
            parts,
            message.command_id,
            model::CommandOutcome{message.command_id, message.instance_id}
        );
    } else if (message.verdict != Verdict::not_master) {
        answer(parts, message.command_id, Error(code_of(message.verdict), message.reason));
    } else {
        if (message.standing) {
            on_standing(parts, from, *message.standing);
        }
        auto const master = live_master(parts);
        if (master && *master != from) {
            open->second.repeat_at = parts.now; // At once, but never to the same one.
        }
    }
}

void hurry_commands(Parts& parts) {
    for (auto& [command_id, open] : parts.commands) {
        open.repeat_at = parts.now;
    }
}

void repeat_commands(Parts& parts) {
    auto const master = live_master(parts);
    for (auto next = parts.commands.begin(); next != parts.commands.end();) {
        auto const [command_id, open] = *next++; // A copy: answering erases it.
        if (parts.now >= open.until) {
            answer(parts, command_id, no_answer(command_id));
        } else if (parts.now >= open.repeat_at) {
            parts.commands.at(command_id).repeat_at = parts.now + command_interval;
            if (parts.leadership) {
                answer(parts, command_id, execute(parts, command_id, open.command));
            } else if (master) {
                send_or_publish(parts, *master, CommandRequest{command_id, open.command});
            }
        }
    }
}

} // namespace exo::replica
