// SPDX-License-Identifier: Apache-2.0
//
// Crockford's base32, five bits a letter, the highest first: for texts that people copy by hand. It
// has no letters that look alike, upper and lower case are the same, and a misread o, i or l is
// taken for the digit that it looks like.
#pragma once

#include "base/bytes.hpp"

#include <optional>

namespace exo::net {

// Lower case, without padding.
[[nodiscard]] std::string to_base32(BytesView bytes);

// The place of the first letter that no such text has; empty: there is none.
[[nodiscard]] std::optional<std::size_t> first_bad_base32_letter(std::string_view text);

// Bits after the last whole byte are left out; empty if one of them is set, or if more than the
// shortest form of these bytes was given. REQUIRES: no bad letter.
[[nodiscard]] std::optional<Bytes> from_base32(std::string_view text);

} // namespace exo::net
