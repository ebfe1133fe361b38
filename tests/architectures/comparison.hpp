// SPDX-License-Identifier: Apache-2.0
//
// One model file, decoded by llama.cpp alone and by ranks of ours: the same tokens in the same
// steps, and the logits of both. Each of them is a process.
#pragma once

#include "base/result.hpp"
#include "engine/tests/nmse.hpp"
#include "model/instance.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace exo::architectures {

using Logits = std::vector<float>;

// Plain llama.cpp: the CPU, no device of ours, no callback.
[[nodiscard]] Result<Logits> logits_of_llama(std::string const& path);

// The probe's answer: an error with the reason why the model cannot be cut so.
[[nodiscard]] Result<void>
probe(std::string const& path, model::Sharding sharding, std::uint32_t ranks);

// As a node would run it: real loader, real sockets. Error: of the first rank that failed.
[[nodiscard]] Result<Logits>
logits_of_ranks(std::string const& path, model::Sharding sharding, std::uint32_t ranks);

using engine::nmse;

} // namespace exo::architectures
