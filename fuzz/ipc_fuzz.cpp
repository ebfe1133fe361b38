// SPDX-License-Identifier: Apache-2.0
#include "fuzz_target.hpp"
#include "ipc/frame.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::ipc;
    exo::fuzz::Pieces const pieces(exo::BytesView(data, size));
    FrameReader reader;
    pieces.each([&](exo::BytesView piece) {
        reader.feed(piece);
        while (true) {
            auto const document = reader.next();
            if (!document) {
                return false;
            }
            if (!*document) {
                return true;
            }
            (void)decode_to_runner(**document);
            (void)decode_from_runner(**document);
        }
    });
    return 0;
}
