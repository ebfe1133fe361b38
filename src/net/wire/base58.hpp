// SPDX-License-Identifier: Apache-2.0
//
// base58btc: text of bytes without the letters that look alike (0 O I l). Leading zero bytes are
// leading '1's.
#pragma once

#include "base/bytes.hpp"

namespace exo::net {

// The conversion takes quadratic time; ids are at most 42 bytes.
constexpr std::size_t base58_text_max = 128;

[[nodiscard]] std::string to_base58(BytesView bytes);

// Error: invalid_argument, for a letter outside the alphabet or a text over `base58_text_max`.
[[nodiscard]] Result<Bytes> from_base58(std::string_view text);

} // namespace exo::net
