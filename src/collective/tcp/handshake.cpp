// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/handshake.hpp"

#include "base/assert.hpp"
#include "collective/tcp/big_endian.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

namespace exo::collective {
namespace {

constexpr std::string_view magic = "exo ranks 1\n";
constexpr std::size_t nonce_bytes = std::tuple_size_v<Nonce32>;
constexpr std::size_t proof_bytes = std::tuple_size_v<Digest>;
constexpr std::size_t hello_bytes = magic.size() + 4 + 4 + nonce_bytes;
constexpr std::size_t answer_bytes = 1 + nonce_bytes;
constexpr std::size_t counter_proof_bytes = 1 + proof_bytes;

enum class Verdict : std::uint8_t { accepted = 0, other_rank = 1, wrong_key = 2 };

// A refusal has the size of what was expected, so that the other side reads it as such.
Bytes refusal(Verdict verdict, std::size_t size) {
    Bytes bytes(size);
    bytes[0] = static_cast<std::uint8_t>(verdict);
    return bytes;
}

bool equal_in_constant_time(BytesView a, BytesView b) {
    return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Error not_a_rank(std::string const& where) {
    return Error(Errc::protocol, fmt::format("{} does not speak as a rank", where));
}

Error wrong_key(std::string const& where) {
    return Error(
        Errc::unavailable,
        fmt::format(
            "{} does not have this group's key: it belongs to another instance or generation, or "
            "is a stranger",
            where
        )
    );
}

} // namespace

Handshake Handshake::dial(Self self, std::uint32_t to, std::string where, Nonce32 const& nonce) {
    EXO_ASSERT(to != self.membership.rank);
    Handshake handshake(std::move(self), std::move(where), nonce);
    handshake.dialler_ = true;
    handshake.peer_ = to;
    handshake.state_ = State::answer;
    append(handshake.output_, as_bytes(magic));
    append_u32(handshake.output_, handshake.self_.membership.rank);
    append_u32(handshake.output_, to);
    append(handshake.output_, nonce);
    return handshake;
}

Handshake Handshake::listen(Self self, std::string where, Nonce32 const& nonce) {
    return Handshake(std::move(self), std::move(where), nonce);
}

Result<void> Handshake::receive(BytesView bytes) {
    append(input_, bytes);
    while (state_ != State::complete) {
        if (state_ == State::membership || state_ == State::chosen) {
            auto const taken = take_record();
            if (!taken) {
                return taken.error();
            }
            if (!*taken) {
                return {};
            }
            continue;
        }
        // A stranger's first wrong byte is enough to know it.
        auto const seen = std::min(input_.size(), magic.size());
        if (state_ == State::hello && as_text(input_).substr(0, seen) != magic.substr(0, seen)) {
            return not_a_rank(where_);
        }
        std::size_t const wanted = bytes_wanted();
        if (input_.size() < wanted) {
            return {};
        }
        Bytes const part(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(wanted));
        input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(wanted));
        EXO_TRY(on_part(part));
    }
    return {};
}

std::size_t Handshake::bytes_wanted() const {
    switch (state_) {
    case State::hello:
        return hello_bytes;
    case State::answer:
        return answer_bytes;
    case State::proof:
        return proof_bytes;
    case State::counter_proof:
        return counter_proof_bytes;
    case State::membership:
    case State::chosen:
    case State::complete:
        break;
    }
    return record_header_bytes;
}

Result<void> Handshake::on_part(BytesView part) {
    switch (state_) {
    case State::hello:
        return on_hello(part);
    case State::answer:
        return on_answer(part);
    case State::proof:
        return on_proof(part);
    case State::counter_proof:
        return on_counter_proof(part);
    case State::membership:
    case State::chosen:
    case State::complete:
        break;
    }
    EXO_ASSERT(false);
    return {};
}

Result<void> Handshake::on_hello(BytesView part) {
    std::uint32_t const from = read_u32(part.subspan(magic.size()));
    std::uint32_t const to = read_u32(part.subspan(magic.size() + 4));
    // One address may lead to another rank than its node meant (two networks with one range, a
    // bridge of this machine); the dialler then tries the rank's other addresses.
    if (to != self_.membership.rank || from == to || from >= self_.size) {
        append(output_, refusal(Verdict::other_rank, answer_bytes));
        return Error(
            Errc::unavailable, fmt::format("{} looked for rank {}, which is not here", where_, to)
        );
    }
    peer_ = from;
    std::ranges::copy(part.last(nonce_bytes), peer_nonce_.begin());
    output_.push_back(static_cast<std::uint8_t>(Verdict::accepted));
    append(output_, own_nonce_);
    state_ = State::proof;
    return {};
}

Result<void> Handshake::on_answer(BytesView part) {
    if (part[0] == static_cast<std::uint8_t>(Verdict::other_rank)) {
        return Error(Errc::unavailable, fmt::format("{} is another rank's", where_));
    }
    if (part[0] != static_cast<std::uint8_t>(Verdict::accepted)) {
        return not_a_rank(where_);
    }
    std::ranges::copy(part.last(nonce_bytes), peer_nonce_.begin());
    append(output_, proof(true));
    state_ = State::counter_proof;
    return {};
}

Result<void> Handshake::on_proof(BytesView part) {
    if (!equal_in_constant_time(part, proof(true))) {
        append(output_, refusal(Verdict::wrong_key, counter_proof_bytes));
        return wrong_key(where_);
    }
    output_.push_back(static_cast<std::uint8_t>(Verdict::accepted));
    append(output_, proof(false));
    start_records();
    return {};
}

Result<void> Handshake::on_counter_proof(BytesView part) {
    if (part[0] != static_cast<std::uint8_t>(Verdict::accepted) ||
        !equal_in_constant_time(part.subspan(1), proof(false))) {
        return wrong_key(where_);
    }
    start_records();
    return {};
}

void Handshake::start_records() {
    auto const to_listener = derive("exo ranks 1 key to listener");
    auto const to_dialler = derive("exo ranks 1 key to dialler");
    sealer_.emplace(dialler_ ? to_listener : to_dialler);
    opener_.emplace(dialler_ ? to_dialler : to_listener);
    sealer_->seal(
        {.kind = RecordKind::membership},
        encode(self_.membership, self_.size, self_.plain_allowed),
        output_
    );
    state_ = State::membership;
}

Result<bool> Handshake::take_record() {
    if (input_.size() < record_header_bytes) {
        return false;
    }
    auto const header = parse_record_header(input_);
    bool const expected =
        header &&
        header->kind == (state_ == State::membership ? RecordKind::membership : RecordKind::chosen);
    if (!expected || header->payload_bytes > membership_bytes_max) {
        return not_a_rank(where_);
    }
    std::size_t const record_bytes = record_header_bytes + body_bytes(*header);
    if (input_.size() < record_bytes) {
        return false;
    }
    Bytes payload(header->payload_bytes);
    auto const body = BytesView(input_).subspan(record_header_bytes, body_bytes(*header));
    EXO_TRY(opener_->open(*header, input_, body, payload));
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(record_bytes));
    if (state_ == State::chosen) {
        state_ = State::complete;
        return true;
    }
    EXO_TRY(on_membership(payload));
    state_ = dialler_ ? State::complete : State::chosen;
    return true;
}

Result<void> Handshake::on_membership(BytesView payload) {
    auto const theirs = decode_membership(payload);
    if (!theirs) {
        return theirs.error();
    }
    if (theirs->membership.rank != peer_) {
        return not_a_rank(where_);
    }
    EXO_TRY(check_agreement(self_.membership, self_.size, *theirs, where_));
    plain_ = self_.plain_allowed && theirs->plain_allowed;
    return {};
}

void Handshake::choose() {
    EXO_ASSERT(dialler_);
    EXO_ASSERT(complete());
    sealer_->seal({.kind = RecordKind::chosen}, {}, output_);
}

Session Handshake::take_session() {
    EXO_ASSERT(complete());
    if (plain_) {
        sealer_->leave_plain();
        opener_->accept_plain();
    }
    return {
        .peer = peer_,
        .sealer = *sealer_,
        .opener = *opener_,
        .plain = plain_,
        .rest = std::move(input_),
    };
}

Digest Handshake::proof(bool of_dialler) const {
    return derive(of_dialler ? "exo ranks 1 proof of dialler" : "exo ranks 1 proof of listener");
}

Digest Handshake::derive(std::string_view purpose) const {
    std::uint32_t const own = self_.membership.rank;
    Bytes bytes;
    append_u32(bytes, dialler_ ? own : peer_);
    append_u32(bytes, dialler_ ? peer_ : own);
    append(bytes, dialler_ ? own_nonce_ : peer_nonce_);
    append(bytes, dialler_ ? peer_nonce_ : own_nonce_);
    append(bytes, as_bytes(purpose));
    Digest digest{};
    crypto_generichash(
        digest.data(), digest.size(), bytes.data(), bytes.size(), self_.key.data(), self_.key.size()
    );
    return digest;
}

} // namespace exo::collective
