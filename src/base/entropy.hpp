// SPDX-License-Identifier: Apache-2.0
//
// Random bytes of the operating system: for keys, nonces, boots and ids. Never in pure code.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace exo {

void fill_random(std::span<std::uint8_t> bytes);

[[nodiscard]] std::uint64_t random_u64();

// A random UUID (version 4) as 36 characters.
[[nodiscard]] std::string random_uuid();

} // namespace exo
