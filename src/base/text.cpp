// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace exo {
namespace {

// Length of the valid character at the front of `text`, 0 if there is none.
std::size_t utf8_character_bytes(std::string_view text) {
    auto const at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    std::uint8_t const first = at(0);
    if (first < 0x80) {
        return 1;
    }
    std::size_t length = 0;
    std::uint32_t point = 0;
    std::uint32_t point_min = 0;
    if (first >= 0xc2 && first < 0xe0) {
        length = 2, point = first & 0x1f, point_min = 0x80;
    } else if (first >= 0xe0 && first < 0xf0) {
        length = 3, point = first & 0x0f, point_min = 0x800;
    } else if (first >= 0xf0 && first < 0xf5) {
        length = 4, point = first & 0x07, point_min = 0x10000;
    }
    if (length == 0 || length > text.size()) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if ((at(i) & 0xc0) != 0x80) {
            return 0;
        }
        point = point << 6 | (at(i) & 0x3fu);
    }
    bool const surrogate = point >= 0xd800 && point < 0xe000;
    return point < point_min || point > 0x10ffff || surrogate ? 0 : length;
}

} // namespace

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (true) {
        auto const end = text.find(separator);
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

bool is_control(char letter) {
    auto const byte = static_cast<unsigned char>(letter);
    return byte < 0x20 || byte == 0x7f;
}

std::string in_one_line(std::string text) {
    std::ranges::replace_if(text, is_control, ' ');
    return text;
}

std::string to_lower(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') {
            c = static_cast<char>(c - 'A' + 'a');
        }
    }
    return lower;
}

Result<std::uint64_t> parse_size(std::string_view text) {
    static constexpr std::array<std::pair<std::string_view, double>, 10> units{{
        {"", 1},
        {"b", 1},
        {"kib", 1024.0},
        {"mib", 1048576.0},
        {"gib", 1073741824.0},
        {"tib", 1099511627776.0},
        {"kb", 1e3},
        {"mb", 1e6},
        {"gb", 1e9},
        {"tb", 1e12},
    }};
    double number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    auto unit = to_lower(text.substr(static_cast<std::size_t>(end - text.data())));
    unit.erase(0, unit.find_first_not_of(' '));
    if (error == std::errc() && number >= 0 && std::isfinite(number)) {
        for (auto const& [name, factor] : units) {
            // 2^63: past any real memory, and safe to convert.
            if (unit == name && number * factor < 9.2e18) {
                return static_cast<std::uint64_t>(number * factor);
            }
        }
    }
    return Error(
        Errc::invalid_argument,
        fmt::format("'{}' is no size: write for example 2GiB, 512MiB or 1000000", text)
    );
}

std::string format_size(std::uint64_t bytes) {
    static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < units.size()) {
        value /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) {
        return text;
    }
    std::size_t end = bytes_max;
    while (end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xc0) == 0x80) {
        --end;
    }
    return text.substr(0, end);
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        auto const length = utf8_character_bytes(text);
        if (length == 0) {
            return false;
        }
        text.remove_prefix(length);
    }
    return true;
}

} // namespace exo
