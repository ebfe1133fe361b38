// SPDX-License-Identifier: Apache-2.0
//
// The log of one node with the State that it leads to, in memory: the newest records, and State in
// place of older ones. Its driver may store what is appended (EventAppended).
//
// Invariants: State is the fold of all records up to position(); the records kept are contiguous
// and end there.
#pragma once

#include "core/replica/message.hpp"

#include <deque>

namespace exo::replica {

// Who is further behind than this takes a snapshot (S7).
constexpr std::size_t log_records_max = 10'000;
constexpr std::size_t log_bytes_max = 8 * 1024 * 1024;

struct Range {
    std::vector<Record> records;
    std::optional<Snapshot> snapshot;
};

class Log {
public:
    Log();

    [[nodiscard]] model::State const& state() const { return state_; }

    [[nodiscard]] model::Position const& position() const { return position_; }

    // Of the last record; its master. None before the first.
    [[nodiscard]] std::optional<model::Session> session() const;

    [[nodiscard]] std::string const& chain() const { return chain_; }

    // The record that makes `event` the next of `session`.
    [[nodiscard]] Record
    next_record(model::Session const& session, model::Event const& event) const;

    // Applies the next record. Errors: protocol (not the next of this log, or a session that begins
    // without its SessionStarted), corrupt (its chain does not continue ours).
    [[nodiscard]] Result<void> append(Record record);

    // Replaces State and log. Error: protocol, if its State is of another position.
    [[nodiscard]] Result<void> install(Snapshot snapshot);

    [[nodiscard]] Snapshot snapshot() const;

    // What follows `after`: records as far as one message holds, a snapshot if they cannot continue
    // from there, nothing if there is nothing newer. A position that this log never went through
    // has a snapshot too.
    [[nodiscard]] Range after(model::Position const& after) const;

private:
    [[nodiscard]] Result<void>
    fits(Record const& record, std::optional<model::Event> const& event) const;
    void trim();

    model::State state_;
    model::Position position_;
    std::string chain_;
    std::deque<Record> records_;
    std::size_t records_bytes_ = 0;
};

} // namespace exo::replica
