// SPDX-License-Identifier: Apache-2.0
#include "collective/group.hpp"
#include "collective/tcp/record.hpp"

#include <gtest/gtest.h>

namespace exo::collective {
namespace {

RecordKey const key{1, 2, 3};

RecordHeader message(std::uint32_t bytes) {
    return {
        .kind = RecordKind::message, .operation = Operation::all_reduce, .message_bytes = bytes
    };
}

// Takes the first record of `bytes` off.
Result<Bytes> open_next(Opener& opener, Bytes& bytes) {
    auto const header = parse_record_header(bytes);
    if (!header) {
        return header.error();
    }
    Bytes payload(header->payload_bytes);
    auto const body = BytesView(bytes).subspan(record_header_bytes, body_bytes(*header));
    EXO_TRY(opener.open(*header, bytes, body, payload));
    auto const size = static_cast<std::ptrdiff_t>(record_header_bytes + body_bytes(*header));
    bytes.erase(bytes.begin(), bytes.begin() + size);
    return payload;
}

TEST(Record, what_is_sealed_opens_in_order) {
    Sealer sealer(key);
    Opener opener(key);
    Bytes wire;
    sealer.seal(message(5), as_bytes("hello"), wire);
    sealer.seal({.kind = RecordKind::beat}, {}, wire);
    EXPECT_EQ(wire.size(), 2 * (record_header_bytes + record_tag_bytes) + 5);
    EXPECT_EQ(as_text(*open_next(opener, wire)), "hello");
    EXPECT_TRUE(open_next(opener, wire)->empty());
    EXPECT_TRUE(wire.empty());
}

TEST(Record, its_wire_form_is_fixed) {
    Sealer sealer(key);
    Bytes wire;
    sealer.seal(message(5), as_bytes("hello"), wire);
    // Made with another implementation of ChaCha20-Poly1305: Python's cryptography 48.0.0.
    EXPECT_EQ(
        to_hex(wire),
        "010103000000000500000005"
        "172ae8cdba"
        "e4daf1b54f48c33163a59478e45ac4eb"
    );
}

TEST(Record, no_bit_of_it_can_be_changed) {
    Sealer sealer(key);
    Bytes wire;
    sealer.seal(message(5), as_bytes("hello"), wire);
    for (std::size_t bit = 0; bit < wire.size() * 8; ++bit) {
        auto const at = bit / 8;
        if (at >= 4 && at < 8) {
            continue; // Another length: then it is not this record (below).
        }
        Bytes changed = wire;
        changed[at] = static_cast<std::uint8_t>(changed[at] ^ 1u << bit % 8);
        Opener opener(key);
        auto const header = parse_record_header(changed);
        bool const refused = !header || body_bytes(*header) != wire.size() - record_header_bytes ||
                             !open_next(opener, changed);
        EXPECT_TRUE(refused) << "bit " << bit;
    }
}

TEST(Record, it_opens_once_and_with_its_own_key_only) {
    Sealer sealer(key);
    Bytes wire;
    sealer.seal(message(5), as_bytes("hello"), wire);
    Bytes again = wire;
    Bytes foreign = wire;
    Opener opener(key);
    EXPECT_TRUE(open_next(opener, wire));
    EXPECT_EQ(open_next(opener, again).error().code(), Errc::protocol);
    Opener other(RecordKey{9});
    EXPECT_FALSE(open_next(other, foreign));
}

TEST(Record, a_plain_record_is_taken_only_where_that_was_agreed) {
    Sealer sealer(key);
    sealer.leave_plain();
    Bytes wire;
    sealer.seal(message(5), as_bytes("hello"), wire);
    EXPECT_EQ(wire.size(), record_header_bytes + 5);
    Bytes again = wire;
    Opener strict(key);
    EXPECT_FALSE(open_next(strict, wire));
    Opener lenient(key);
    lenient.accept_plain();
    EXPECT_EQ(as_text(*open_next(lenient, again)), "hello");
}

TEST(Record, unknown_forms_and_sizes_are_refused) {
    Bytes const good = *from_hex("01 01 03 00 00010000 04000000");
    ASSERT_TRUE(parse_record_header(good));
    Bytes const plain = *from_hex("01 00 03 00 00100000 04000000");
    ASSERT_TRUE(parse_record_header(plain));
    for (auto const* bad : {
             "00 01 03 00 00010000 04000000", // kind 0
             "09 01 03 00 00010000 04000000", // kind 9
             "01 02 03 00 00010000 04000000", // flags
             "01 01 06 00 00010000 04000000", // operation
             "01 01 03 01 00010000 04000000", // reserved
             "01 01 03 00 00010001 04000000", // payload over its limit
             "01 00 03 00 00100001 04000000", // the same, not sealed
             "05 00 00 00 00010001 00000000", // not sealed, and no part of a message
             "01 01 03 00 00010000 04000001", // message over its limit
         }) {
        EXPECT_FALSE(parse_record_header(*from_hex(bad))) << bad;
    }
}

} // namespace
} // namespace exo::collective
