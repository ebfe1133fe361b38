// SPDX-License-Identifier: Apache-2.0
//
// The text of an answer as it grows: bytes of tokens in, text that may be shown out. A character is
// never cut, and what may turn out to be the beginning of a stop string is held back. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace exo::engine {

class AnswerText {
public:
    // Empty stop strings are ignored.
    explicit AnswerText(std::vector<std::string> stops);

    struct Shown {
        std::string text;     // Valid UTF-8; what the model wrote wrongly is U+FFFD.
        bool stopped = false; // A stop string is complete: it and all after it are not shown.
    };

    // REQUIRES: not stopped before.
    [[nodiscard]] Shown push(std::string_view bytes);

    // The end without a stop string: all that was held back.
    [[nodiscard]] std::string flush();

private:
    void take_characters();
    [[nodiscard]] std::size_t held_back() const;

    std::vector<std::string> stops_;
    std::string bytes_; // The beginning of a character.
    std::string text_;  // Whole characters, not shown yet.
};

} // namespace exo::engine
