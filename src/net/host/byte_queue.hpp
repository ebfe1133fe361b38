// SPDX-License-Identifier: Apache-2.0
//
// Bytes that were received and not read yet. Small pieces are joined, so that a peer who sends byte
// by byte makes us hold little more than its bytes; large ones are kept as they came. Pure.
#pragma once

#include "base/bytes.hpp"

#include <deque>

namespace exo::net {

class ByteQueue {
public:
    void push(Bytes bytes);

    // Before all others.
    void push_front(Bytes bytes);

    // Moves out as many as there are and fit.
    [[nodiscard]] std::size_t read(std::span<std::uint8_t> into);

    void clear();

    [[nodiscard]] bool empty() const { return pieces_.empty(); }

    // What it holds in memory, about.
    [[nodiscard]] std::size_t allocated_bytes() const;

private:
    std::deque<Bytes> pieces_;   // None is empty.
    std::size_t front_read_ = 0; // Bytes of the first piece that were read already.
};

} // namespace exo::net
