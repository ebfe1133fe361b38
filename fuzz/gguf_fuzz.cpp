// SPDX-License-Identifier: Apache-2.0
//
// An input is the whole file, and then a prefix of a larger one.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "model/gguf/card.hpp"
#include "model/gguf/header.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::model::gguf;
    exo::BytesView const bytes(data, size);
    if (auto const parsed = parse_header(bytes, size)) {
        auto const* header = std::get_if<Header>(&*parsed);
        EXO_ASSERT(header); // The whole file is there: nothing more can be needed.
        (void)content_of(*header);
        (void)split_of(*header);
        (void)card_from_gguf(*header, header->tensor_bytes, "model.gguf");
    }
    constexpr std::uint64_t larger = std::uint64_t{1} << 40;
    if (auto const parsed = parse_header(bytes, larger)) {
        if (auto const* more = std::get_if<NeedMore>(&*parsed)) {
            EXO_ASSERT(more->bytes > size);
        }
    }
    return 0;
}
