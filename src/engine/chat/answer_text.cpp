// SPDX-License-Identifier: Apache-2.0
#include "engine/chat/answer_text.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <utility>

namespace exo::engine {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD"; // U+FFFD

// The length that the first byte of a character announces; 0 if none begins so.
std::size_t character_bytes(char first) {
    auto const byte = static_cast<unsigned char>(first);
    if (byte < 0x80) {
        return 1;
    }
    if (byte >= 0xC2 && byte <= 0xDF) {
        return 2;
    }
    if ((byte & 0xF0) == 0xE0) {
        return 3;
    }
    return byte >= 0xF0 && byte <= 0xF4 ? 4 : 0;
}

// True if more bytes could make a character of it. The narrowest and widest continuations tell: a
// beginning that neither completes is none (overlong, surrogate, past the last character).
bool may_become_character(std::string_view beginning, std::size_t bytes) {
    std::string low(beginning);
    std::string high(beginning);
    low.resize(bytes, '\x80');
    high.resize(bytes, '\xBF');
    return is_utf8(low) || is_utf8(high);
}

} // namespace

AnswerText::AnswerText(std::vector<std::string> stops)
    : stops_(std::move(stops)) {
    std::erase(stops_, std::string());
}

AnswerText::Shown AnswerText::push(std::string_view bytes) {
    bytes_ += bytes;
    take_characters();
    auto first = std::string::npos;
    for (auto const& stop : stops_) {
        first = std::min(first, text_.find(stop));
    }
    if (first != std::string::npos) {
        text_.resize(first);
        return {std::exchange(text_, {}), true};
    }
    auto const shown = text_.size() - held_back();
    Shown result{text_.substr(0, shown), false};
    text_.erase(0, shown);
    return result;
}

std::string AnswerText::flush() {
    if (!bytes_.empty()) {
        text_ += replacement;
        bytes_.clear();
    }
    return std::exchange(text_, {});
}

void AnswerText::take_characters() {
    std::string_view rest(bytes_);
    while (!rest.empty()) {
        auto const bytes = character_bytes(rest.front());
        auto const character = rest.substr(0, bytes);
        if (bytes != 0 && character.size() == bytes && is_utf8(character)) {
            text_ += character;
            rest.remove_prefix(bytes);
        } else if (bytes > rest.size() && may_become_character(rest, bytes)) {
            break;
        } else {
            text_ += replacement;
            rest.remove_prefix(1);
            while (!rest.empty() && (static_cast<unsigned char>(rest.front()) & 0xC0) == 0x80) {
                rest.remove_prefix(1);
            }
        }
    }
    bytes_.erase(0, bytes_.size() - rest.size());
}

// The longest end of the text that begins a stop string.
std::size_t AnswerText::held_back() const {
    std::size_t longest = 0;
    for (auto const& stop : stops_) {
        auto bytes = std::min(stop.size() - 1, text_.size());
        while (bytes > longest && !std::string_view(stop).starts_with(
                                      std::string_view(text_).substr(text_.size() - bytes)
                                  )) {
            --bytes;
        }
        longest = std::max(longest, bytes);
    }
    return longest;
}

} // namespace exo::engine
