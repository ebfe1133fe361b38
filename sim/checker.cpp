// SPDX-License-Identifier: Apache-2.0
#include "sim/checker.hpp"

#include "model/json.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace exo::sim {
namespace {

void require(bool condition, std::string const& text) {
    if (!condition) {
        throw Violation(text);
    }
}

} // namespace

std::string text_of(model::State const& state) {
    return model::to_text(model::to_json(state, model::Naming::snake));
}

void Checker::after_step(
    model::Boot boot, replica::Replica const& replica, replica::Outputs const& outputs
) {
    bool moved = false;
    for (auto const& output : outputs) {
        if (auto const* const appended = std::get_if<replica::EventAppended>(&output)) {
            on_appended(boot, replica, appended->record);
            moved = true;
        }
    }
    if (moved) {
        check_state(replica);
    }
    auto const elected = replica.election().elected;
    require(elected.has_value(), "nobody is elected");
    auto const [before, is_new] = elected_.try_emplace(boot, *elected);
    require(*elected >= before->second, "I3: elected has fallen");
    before->second = *elected;
    if (replica.leading()) {
        require(
            replica.session() && replica.session()->master_node_id == replica.self(),
            "I3: a leader's session does not name itself"
        );
    }
}

void Checker::on_appended(
    model::Boot boot, replica::Replica const& replica, replica::Record const& record
) {
    auto const& session = record.position.session;
    auto const [known, is_first] =
        records_.try_emplace(record.position, Known{record.event, record.chain, {}});
    if (is_first) {
        require(
            session.master_node_id == replica.self(),
            fmt::format("I2: record {} was not first at its master", record.position.index)
        );
        auto const [started, is_new] = sessions_.try_emplace(session, boot);
        require(started->second == boot, "I2: a session was started twice");
        return;
    }
    require(
        known->second.event == record.event && known->second.chain == record.chain,
        fmt::format("I1: two records at index {} of one session", record.position.index)
    );
}

// The text of a State costs much more than a step, so only some positions are compared.
void Checker::check_state(replica::Replica const& replica) {
    constexpr std::int64_t compared_each = 4;
    auto const& position = replica.position();
    if (position.index % compared_each != 0) {
        return;
    }
    auto const known = records_.find(position);
    require(known != records_.end(), "I1: a position without a record");
    auto text = text_of(replica.state());
    if (known->second.state.empty()) {
        known->second.state = std::move(text);
    } else {
        require(
            known->second.state == text,
            fmt::format(
                "I1: two States at index {}: {} / {}", position.index, known->second.state, text
            )
        );
    }
}

void Checker::on_store_clock(model::NodeId const& node_id, std::uint64_t clock) {
    auto& last = clocks_[node_id];
    require(clock > last, "I3: a clock did not rise");
    last = clock;
}

} // namespace exo::sim
