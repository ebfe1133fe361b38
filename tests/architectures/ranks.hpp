// SPDX-License-Identifier: Apache-2.0
//
// A program that runs as every rank of a group, each in a process of its own, joined by sockets as
// nodes would join them.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collective/group.hpp"

#include <functional>

namespace exo::architectures {

using RankProgram = std::function<Result<Bytes>(collective::Group&)>;

// What rank 0 gave. Error: of the first rank that failed.
[[nodiscard]] Result<Bytes> run_ranks(std::uint32_t ranks, RankProgram const& program);

} // namespace exo::architectures
