// SPDX-License-Identifier: Apache-2.0
//
// Bytes as all layers pass them: owned (Bytes) or looked at (BytesView).
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exo {

using Bytes = std::vector<std::uint8_t>;
using BytesView = std::span<std::uint8_t const>;

// The bytes of a text, not copied: the text must outlive the view.
[[nodiscard]] inline BytesView as_bytes(std::string_view text) {
    return {reinterpret_cast<std::uint8_t const*>(text.data()), text.size()};
}

// The text of bytes, not copied: the bytes must outlive the view.
[[nodiscard]] inline std::string_view as_text(BytesView bytes) {
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

inline void append(Bytes& to, BytesView what) {
    to.insert(to.end(), what.begin(), what.end());
}

// Lower case, two digits a byte, no separator.
[[nodiscard]] std::string to_hex(BytesView bytes);

// Accepts both cases and blanks between bytes. Error: invalid_argument.
[[nodiscard]] Result<Bytes> from_hex(std::string_view text);

} // namespace exo
