// SPDX-License-Identifier: Apache-2.0
//
// The same program as every rank of a group, each in a process of its own (ggml's meta device keeps
// process-wide tables without locks), and what such tests compare: logits of the test model.
#pragma once

#include "base/bytes.hpp"
#include "collective/group.hpp"
#include "engine/load/loader.hpp"
#include "engine/tests/nmse.hpp"

#include <functional>
#include <string>
#include <vector>

namespace exo::engine {

using RankProgram = std::function<Bytes(collective::Group&)>;

// The result of rank 0. A rank that ends badly is a failure of the test. Nothing may have used ggml
// in this process before: the ranks are forks.
[[nodiscard]] Bytes run_ranks(std::uint32_t size, RankProgram const& program);

// The logits after each of some tokens, a prompt and then one by one, as one rank computes them.
// What `options` leaves open is set here.
[[nodiscard]] Bytes logits_of(LoadOptions options, collective::Group& group);

// What a program made of logits_of() returns.
[[nodiscard]] std::vector<float> logits(std::uint32_t ranks, RankProgram const& program);

} // namespace exo::engine
