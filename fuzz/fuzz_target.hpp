// SPDX-License-Identifier: Apache-2.0
//
// What all targets share. A target is libFuzzer's entry point; replay_main.cpp calls the same.
#pragma once

#include "base/bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

namespace exo::fuzz {

// The first byte of an input says how large the pieces are in which a stream is read: a cut must
// never change what it means. 0: all at once.
struct Pieces {
    explicit Pieces(BytesView input) {
        if (!input.empty()) {
            size = input[0] == 0 ? input.size() : input[0];
            bytes = input.subspan(1);
        }
    }

    // Calls `take(piece)` until it says false or nothing is left.
    template <class Take>
    void each(Take&& take) const {
        for (auto rest = bytes; !rest.empty();) {
            auto const piece = rest.first(std::min(size, rest.size()));
            rest = rest.subspan(piece.size());
            if (!take(piece)) {
                return;
            }
        }
    }

    std::size_t size = 1;
    BytesView bytes;
};

} // namespace exo::fuzz
