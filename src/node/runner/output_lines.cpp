// SPDX-License-Identifier: Apache-2.0
#include "node/runner/output_lines.hpp"

#include "base/text.hpp"

namespace exo::node {

std::vector<std::string> OutputLines::feed(BytesView bytes) {
    std::vector<std::string> complete;
    for (auto const byte : bytes) {
        if (byte != '\n') {
            if (line_.size() < output_line_bytes_max && byte != '\r') {
                auto const letter = static_cast<char>(byte);
                line_ += is_control(letter) ? ' ' : letter;
            }
            continue;
        }
        if (line_.empty()) {
            continue;
        }
        if (kept_.size() == output_lines_kept) {
            kept_.pop_front();
        }
        kept_.push_back(line_);
        complete.push_back(std::move(line_));
        line_.clear();
    }
    return complete;
}

std::vector<std::string> OutputLines::last() const {
    std::vector<std::string> lines(kept_.begin(), kept_.end());
    if (!line_.empty()) {
        lines.push_back(line_);
    }
    if (lines.size() > output_lines_kept) {
        lines.erase(lines.begin());
    }
    return lines;
}

} // namespace exo::node
