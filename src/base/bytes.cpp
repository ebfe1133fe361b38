// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"

namespace exo {
namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

} // namespace

std::string to_hex(BytesView bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (auto const byte : bytes) {
        text.push_back(digits[byte >> 4]);
        text.push_back(digits[byte & 15]);
    }
    return text;
}

Result<Bytes> from_hex(std::string_view text) {
    Bytes bytes;
    int high = -1;
    for (char const c : text) {
        if (high < 0 && (c == ' ' || c == '\n')) {
            continue;
        }
        int const digit = hex_digit(c);
        if (digit < 0) {
            return Error(Errc::invalid_argument, std::string("'") + c + "' is no hex digit");
        }
        if (high < 0) {
            high = digit;
        } else {
            bytes.push_back(static_cast<std::uint8_t>(high << 4 | digit));
            high = -1;
        }
    }
    if (high >= 0) {
        return Error(Errc::invalid_argument, "hex text with half a byte at its end");
    }
    return bytes;
}

} // namespace exo
