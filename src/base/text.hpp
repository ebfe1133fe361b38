// SPDX-License-Identifier: Apache-2.0
//
// Small text helpers that several layers need.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace exo {

// The parts between separators; "" gives one empty part.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

[[nodiscard]] std::string to_lower(std::string_view text);

// A byte that steers a terminal or ends a line.
[[nodiscard]] bool is_control(char letter);

// Blanks instead of them: what quotes a stranger must not steer a terminal or forge a line.
[[nodiscard]] std::string in_one_line(std::string text);

// "512MiB", "2GiB", "1.5 GB", "1000" (bytes). Error: invalid_argument with the accepted forms.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

// "1.4 GiB": binary units, one decimal.
[[nodiscard]] std::string format_size(std::uint64_t bytes);

// The longest prefix of at most `bytes_max` bytes that ends at a character's end: a text cut for
// display must stay valid UTF-8.
[[nodiscard]] std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max);

// True if all of it is valid UTF-8 (RFC 3629: no overlong forms, surrogates, or past U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view text);

} // namespace exo
