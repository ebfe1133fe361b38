// SPDX-License-Identifier: Apache-2.0
#include "core/replica/log.hpp"

#include "base/assert.hpp"
#include "core/cluster/apply.hpp"
#include "core/cluster/lineage.hpp"
#include "core/replica/record.hpp"

#include <fmt/core.h>

namespace exo::replica {
namespace {

// What one record costs in a message, about: its text and its position.
std::size_t bytes_of(Record const& record) {
    constexpr std::size_t frame_bytes = 256;
    return record.event.size() + frame_bytes;
}

} // namespace

Log::Log()
    : chain_(chain_start()) {}

std::optional<model::Session> Log::session() const {
    return cluster::current_session(state_);
}

Record Log::next_record(model::Session const& session, model::Event const& event) const {
    return make_record({session, position_.index + 1}, event, chain_);
}

Result<void> Log::fits(Record const& record, std::optional<model::Event> const& event) const {
    if (record.position.index != position_.index + 1) {
        return Error(
            Errc::protocol,
            fmt::format("record {} after {}", record.position.index, position_.index)
        );
    }
    auto const* const started = event ? std::get_if<model::SessionStarted>(&*event) : nullptr;
    bool const continues =
        started ? started->session == record.position.session && started->base == position_.index
                : session() == record.position.session;
    if (!continues) {
        return Error(
            Errc::protocol,
            fmt::format("record {} is of a session that has not begun", record.position.index)
        );
    }
    if (chain_after(chain_, record.event) != record.chain) {
        return Error(
            Errc::corrupt,
            fmt::format("record {} does not continue the chain of this log", record.position.index)
        );
    }
    return {};
}

Result<void> Log::append(Record record) {
    auto const event = event_of(record);
    EXO_TRY(fits(record, event));
    if (event) {
        cluster::apply(state_, record.position.index, *event);
    } else {
        cluster::skip(state_, record.position.index);
    }
    EXO_ASSERT(state_.last_event_applied_idx == record.position.index);
    position_ = record.position;
    chain_ = record.chain;
    records_bytes_ += bytes_of(record);
    records_.push_back(std::move(record));
    trim();
    return {};
}

Result<void> Log::install(Snapshot snapshot) {
    if (cluster::position(snapshot.state) != snapshot.position || snapshot.position.index < 0) {
        return Error(Errc::protocol, "a snapshot whose State is of another position");
    }
    state_ = std::move(snapshot.state);
    position_ = snapshot.position;
    chain_ = std::move(snapshot.chain);
    records_.clear();
    records_bytes_ = 0;
    return {};
}

Snapshot Log::snapshot() const {
    return {position_, chain_, state_};
}

Range Log::after(model::Position const& after) const {
    if (after == position_) {
        return {};
    }
    std::int64_t const base = position_.index - static_cast<std::int64_t>(records_.size());
    if (!cluster::in_lineage(state_, after) || after.index < base) {
        return {{}, snapshot()};
    }
    Range range;
    std::size_t bytes = 0;
    for (auto i = static_cast<std::size_t>(after.index - base); i < records_.size(); ++i) {
        bytes += bytes_of(records_[i]);
        bool const full = range.records.size() == range_records_max || bytes > range_bytes_max;
        if (full && !range.records.empty()) {
            break;
        }
        range.records.push_back(records_[i]);
    }
    return range;
}

void Log::trim() {
    while (records_.size() > log_records_max || records_bytes_ > log_bytes_max) {
        records_bytes_ -= bytes_of(records_.front());
        records_.pop_front();
    }
}

} // namespace exo::replica
