// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/handshake.hpp"

#include <gtest/gtest.h>

namespace exo::collective {
namespace {

Handshake::Self self(std::uint32_t rank) {
    return {
        .key = {1, 2, 3},
        .membership =
            {.rank = rank, .instance_id = "instance", .generation = 1, .program = "program"},
        .size = 3,
    };
}

Nonce32 nonce(std::uint8_t seed) {
    return {seed};
}

struct Outcome {
    Result<void> dialler;
    Result<void> listener;
};

// Moves bytes between the two until nothing is left, in pieces of `piece` bytes.
Outcome converse(Handshake& dialler, Handshake& listener, std::size_t piece = 10'000) {
    Outcome outcome;
    bool moved = true;
    auto const deliver = [&](Bytes const& bytes, Handshake& to, Result<void>& result) {
        for (std::size_t at = 0; at < bytes.size() && result; at += piece) {
            auto const rest = BytesView(bytes).subspan(at);
            result = to.receive(rest.first(std::min(piece, rest.size())));
            moved = true;
        }
    };
    while (moved) {
        moved = false;
        deliver(dialler.take_output(), listener, outcome.listener);
        deliver(listener.take_output(), dialler, outcome.dialler);
    }
    return outcome;
}

TEST(Handshake, two_ranks_with_one_key_come_together_whatever_the_cut) {
    for (std::size_t piece = 1; piece < 60; ++piece) {
        auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
        auto listener = Handshake::listen(self(0), "b", nonce(2));
        auto const outcome = converse(dialler, listener, piece);
        ASSERT_TRUE(outcome.dialler && outcome.listener);
        ASSERT_TRUE(dialler.complete());
        ASSERT_FALSE(listener.complete()) << "not chosen yet";
        dialler.choose();
        (void)converse(dialler, listener, piece);
        ASSERT_TRUE(listener.complete());
        EXPECT_EQ(dialler.take_session().peer, 0u);
        EXPECT_EQ(listener.take_session().peer, 2u);
    }
}

TEST(Handshake, what_one_seals_afterwards_the_other_opens) {
    auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
    auto listener = Handshake::listen(self(0), "b", nonce(2));
    (void)converse(dialler, listener);
    dialler.choose();
    Bytes wire = dialler.take_output();
    auto dialler_session = dialler.take_session();
    dialler_session.sealer.seal({.kind = RecordKind::ready}, as_bytes("x"), wire);
    ASSERT_TRUE(listener.receive(wire));
    auto session = listener.take_session();
    auto const header = parse_record_header(session.rest);
    ASSERT_TRUE(header);
    Bytes payload(1);
    auto const body = BytesView(session.rest).subspan(record_header_bytes);
    EXPECT_TRUE(session.opener.open(*header, session.rest, body, payload));
    EXPECT_EQ(as_text(payload), "x");
}

TEST(Handshake, its_wire_form_is_fixed) {
    // Made with other implementations of BLAKE2b and ChaCha20-Poly1305: Python's hashlib and
    // cryptography 48.0.0.
    auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
    auto listener = Handshake::listen(self(0), "b", nonce(2));
    Bytes const hello = dialler.take_output();
    EXPECT_EQ(
        to_hex(hello),
        "65786f2072616e6b7320310a0000000200000000010000000000000000000000"
        "0000000000000000000000000000000000000000"
    );
    ASSERT_TRUE(listener.receive(hello));
    Bytes const answer = listener.take_output();
    EXPECT_EQ(
        to_hex(answer),
        "0002000000000000000000000000000000000000000000000000000000000000"
        "00"
    );
    ASSERT_TRUE(dialler.receive(answer));
    Bytes const proof = dialler.take_output();
    EXPECT_EQ(to_hex(proof), "9fbd2bdedd4bca0739aaff343f70f1fce30acea7475535328f680202482bcb77");
    ASSERT_TRUE(listener.receive(proof));
    EXPECT_EQ(
        to_hex(listener.take_output()),
        "00"
        "9573592bd131f067d9193b0554f04347e7b53d8609e61e72a461b944b735f342"
        "0601000000000067000000009d6a9ff17bc367f24e7d6063c5d762f830c4c27e"
        "8267681df176624a02e02df2bb705d55de2dec03c557235600fe732453a31312"
        "103a8d2ffba36e3eb87603f047e13ed93c41f90cce6a664f8daf220ffcf5e602"
        "729cf521acd72cb6670b82ab7a385d7a09ff942170edab20305da80a3b430931"
        "059d52"
    );
}

TEST(Handshake, another_key_is_refused_on_both_sides_with_the_reason) {
    auto stranger = self(2);
    stranger.key[31] = 1;
    auto dialler = Handshake::dial(stranger, 0, "10.0.0.2:1", nonce(1));
    auto listener = Handshake::listen(self(0), "10.0.0.3:2", nonce(2));
    auto const outcome = converse(dialler, listener);
    ASSERT_FALSE(outcome.dialler);
    ASSERT_FALSE(outcome.listener);
    EXPECT_EQ(outcome.dialler.error().code(), Errc::unavailable);
    EXPECT_NE(outcome.dialler.error().text().find("key"), std::string::npos);
    EXPECT_NE(outcome.listener.error().text().find("10.0.0.3:2"), std::string::npos);
}

TEST(Handshake, a_rank_that_another_is_looked_for_at_says_so) {
    auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
    auto listener = Handshake::listen(self(1), "b", nonce(2));
    auto const outcome = converse(dialler, listener);
    ASSERT_FALSE(outcome.dialler);
    EXPECT_EQ(outcome.dialler.error().code(), Errc::unavailable);
    EXPECT_EQ(outcome.listener.error().code(), Errc::unavailable);
}

TEST(Handshake, proven_ranks_that_disagree_both_learn_of_the_conflict) {
    auto other = self(2);
    other.membership.program_hash[0] = 1;
    auto dialler = Handshake::dial(other, 0, "a", nonce(1));
    auto listener = Handshake::listen(self(0), "b", nonce(2));
    auto const outcome = converse(dialler, listener);
    EXPECT_EQ(outcome.dialler.error().code(), Errc::conflict);
    EXPECT_EQ(outcome.listener.error().code(), Errc::conflict);
}

TEST(Handshake, plain_records_need_the_consent_of_both) {
    for (bool const second : {false, true}) {
        auto one = self(2);
        auto other = self(0);
        one.plain_allowed = true;
        other.plain_allowed = second;
        auto dialler = Handshake::dial(one, 0, "a", nonce(1));
        auto listener = Handshake::listen(other, "b", nonce(2));
        (void)converse(dialler, listener);
        dialler.choose();
        (void)converse(dialler, listener);
        EXPECT_EQ(dialler.take_session().plain, second);
        EXPECT_EQ(listener.take_session().plain, second);
    }
}

TEST(Handshake, a_recorded_dialler_cannot_be_played_again) {
    auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
    auto listener = Handshake::listen(self(0), "b", nonce(2));
    Bytes recorded = dialler.take_output();
    ASSERT_TRUE(listener.receive(recorded));
    ASSERT_TRUE(dialler.receive(listener.take_output()));
    append(recorded, dialler.take_output());
    auto later = Handshake::listen(self(0), "b", nonce(3));
    auto const result = later.receive(recorded);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::unavailable);
}

TEST(Handshake, a_listener_cannot_prove_itself_with_the_diallers_own_words) {
    auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
    Bytes const hello = dialler.take_output();
    Bytes answer{0};
    append(answer, BytesView(hello).last(32)); // The same nonce.
    ASSERT_TRUE(dialler.receive(answer));
    Bytes echo{0};
    append(echo, dialler.take_output());
    EXPECT_FALSE(dialler.receive(echo));
}

TEST(Handshake, a_stranger_is_known_by_its_first_wrong_byte_and_learns_nothing) {
    for (auto const* words : {"GET / HTTP/1.1\r\n", "x", "exo ranks 2\n"}) {
        auto listener = Handshake::listen(self(0), "b", nonce(2));
        auto const result = listener.receive(as_bytes(words));
        ASSERT_FALSE(result) << words;
        EXPECT_EQ(result.error().code(), Errc::protocol);
        EXPECT_TRUE(listener.take_output().empty());
    }
}

TEST(Handshake, garbage_for_an_answer_is_no_rank) {
    auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
    auto const result = dialler.receive(Bytes(100, 0x41));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::protocol);
}

TEST(Handshake, garbage_after_the_proofs_is_an_error_whatever_it_is) {
    auto dialler = Handshake::dial(self(2), 0, "a", nonce(1));
    auto listener = Handshake::listen(self(0), "b", nonce(2));
    ASSERT_TRUE(listener.receive(dialler.take_output()));
    ASSERT_TRUE(dialler.receive(listener.take_output()));
    ASSERT_TRUE(listener.receive(dialler.take_output()));
    Bytes bytes = listener.take_output();
    bytes.back() ^= 1; // In the sealed membership.
    EXPECT_FALSE(dialler.receive(bytes));
}

} // namespace
} // namespace exo::collective
