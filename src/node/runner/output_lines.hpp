// SPDX-License-Identifier: Apache-2.0
//
// The lines that a child process writes: cut to a bounded length, made safe to log, and the last
// few kept for a failure report. Pure.
#pragma once

#include "base/bytes.hpp"

#include <deque>
#include <string>
#include <vector>

namespace exo::node {

constexpr std::size_t output_line_bytes_max = 500; // The rest of a longer line is dropped.
constexpr std::size_t output_lines_kept = 20;

class OutputLines {
public:
    // Takes the next bytes, cut anywhere; returns the lines that they complete. Control characters
    // become blanks: they could move the cursor of whoever reads the log.
    std::vector<std::string> feed(BytesView bytes);

    // The last lines, oldest first, with one that has no end yet.
    [[nodiscard]] std::vector<std::string> last() const;

private:
    std::string line_; // Not complete yet.
    std::deque<std::string> kept_;
};

} // namespace exo::node
