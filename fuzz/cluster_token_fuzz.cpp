// SPDX-License-Identifier: Apache-2.0
//
// An input is tried as the text of a token, and as what is inside of one, with the checksum that
// fits: only so does the fuzzer come as far as the addresses.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/cluster_token/base32.hpp"
#include "net/cluster_token/cluster_token.hpp"

namespace exo::net {
namespace {

// What is accepted means one thing, and is written in one way.
void check(std::string_view text) {
    if (auto const token = parse_cluster_token(text)) {
        auto const written = to_text(*token);
        EXO_ASSERT(written.size() <= text.size());
        EXO_ASSERT(parse_cluster_token(written).value() == *token);
    }
}

void run(BytesView input) {
    check(as_text(input));
    Bytes content(input.begin(), input.end());
    auto const sum = token_checksum(content);
    for (int shift = 24; shift >= 0; shift -= 8) {
        content.push_back(static_cast<std::uint8_t>(sum >> shift));
    }
    check("exo1-" + to_base32(content));
}

} // namespace
} // namespace exo::net

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    exo::net::run(exo::BytesView(data, size));
    return 0;
}
