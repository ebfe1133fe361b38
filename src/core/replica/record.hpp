// SPDX-License-Identifier: Apache-2.0
//
// Writing and reading one record of the log: its event's text and its place in the hash chain (S4).
#pragma once

#include "base/result.hpp"
#include "core/replica/message.hpp"

#include <optional>
#include <string>

namespace exo::replica {

// The chain before the first record of all.
[[nodiscard]] std::string const& chain_start();

// The first 16 bytes, in hex, of SHA-256(previous chain, event text).
[[nodiscard]] std::string chain_after(std::string const& previous, std::string const& event);

[[nodiscard]] Record make_record(
    model::Position const& position, model::Event const& event, std::string const& previous_chain
);

// None for an event that this version cannot read: it only advances the index (S5), on all nodes of
// this version alike.
[[nodiscard]] std::optional<model::Event> event_of(Record const& record);

} // namespace exo::replica
