// SPDX-License-Identifier: Apache-2.0
#include "net/host/byte_queue.hpp"

#include <algorithm>

namespace exo::net {
namespace {

// Pieces are joined up to this size: a yamux frame of rust's, so most are moved and not copied.
constexpr std::size_t joined_bytes_max = 16 * 1024;

} // namespace

void ByteQueue::push(Bytes bytes) {
    if (bytes.empty()) {
        return;
    }
    if (!pieces_.empty() && pieces_.back().size() + bytes.size() <= joined_bytes_max) {
        append(pieces_.back(), bytes);
    } else {
        pieces_.push_back(std::move(bytes));
    }
}

void ByteQueue::push_front(Bytes bytes) {
    if (bytes.empty()) {
        return;
    }
    if (front_read_ > 0) {
        auto& front = pieces_.front();
        front.erase(front.begin(), front.begin() + static_cast<std::ptrdiff_t>(front_read_));
        front_read_ = 0;
    }
    pieces_.push_front(std::move(bytes));
}

std::size_t ByteQueue::read(std::span<std::uint8_t> into) {
    std::size_t filled = 0;
    while (filled < into.size() && !pieces_.empty()) {
        auto const unread = BytesView(pieces_.front()).subspan(front_read_);
        auto const part = unread.first(std::min(unread.size(), into.size() - filled));
        std::ranges::copy(part, into.subspan(filled).begin());
        filled += part.size();
        front_read_ += part.size();
        if (part.size() == unread.size()) {
            pieces_.pop_front();
            front_read_ = 0;
        }
    }
    return filled;
}

void ByteQueue::clear() {
    pieces_.clear();
    front_read_ = 0;
}

std::size_t ByteQueue::allocated_bytes() const {
    std::size_t sum = 0;
    for (auto const& piece : pieces_) {
        sum += piece.capacity();
    }
    return sum;
}

} // namespace exo::net
