// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/membership.hpp"

#include "base/text.hpp"
#include "collective/tcp/big_endian.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

namespace exo::collective {
namespace {

// Reads the parts of an encoded membership in order; after the first lack, all is empty.
class Reader {
public:
    explicit Reader(BytesView bytes)
        : rest_(bytes) {}

    BytesView take(std::size_t count) {
        if (rest_.size() < count) {
            failed_ = true;
            rest_ = {};
            return {};
        }
        auto const part = rest_.first(count);
        rest_ = rest_.subspan(count);
        return part;
    }

    std::uint32_t number() {
        auto const bytes = take(4);
        return failed_ ? 0 : read_u32(bytes);
    }

    std::string text() {
        std::size_t const count = number();
        return std::string(as_text(take(count)));
    }

    Digest digest() {
        Digest digest{};
        std::ranges::copy(take(digest.size()), digest.begin());
        return digest;
    }

    [[nodiscard]] bool complete() const { return !failed_ && rest_.empty(); }

private:
    BytesView rest_;
    bool failed_ = false;
};

void append_text(Bytes& to, std::string_view text) {
    auto const part = utf8_prefix(text, membership_text_bytes_max);
    append_u32(to, static_cast<std::uint32_t>(part.size()));
    append(to, as_bytes(part));
}

std::string short_hex(Digest const& digest) {
    return to_hex(BytesView(digest).first(6));
}

Error conflict(
    Membership const& ours,
    PeerMembership const& theirs,
    std::string const& where,
    std::string const& what
) {
    return Error(
        Errc::conflict,
        fmt::format(
            "rank {} (here) and rank {} at {} do not belong together: {}",
            ours.rank,
            theirs.membership.rank,
            where,
            what
        )
    );
}

} // namespace

Digest digest_of(BytesView bytes) {
    Digest digest{};
    crypto_generichash(digest.data(), digest.size(), bytes.data(), bytes.size(), nullptr, 0);
    return digest;
}

Bytes encode(Membership const& membership, std::uint32_t size, bool plain_allowed) {
    Bytes bytes;
    append_u32(bytes, membership.rank);
    append_u32(bytes, size);
    append_u32(bytes, membership.generation);
    append_u32(bytes, plain_allowed ? 1 : 0);
    append(bytes, membership.rank_map_hash);
    append(bytes, membership.program_hash);
    append_text(bytes, membership.instance_id);
    append_text(bytes, membership.program);
    return bytes;
}

Result<PeerMembership> decode_membership(BytesView bytes) {
    Reader reader(bytes);
    PeerMembership peer;
    peer.membership.rank = reader.number();
    peer.size = reader.number();
    peer.membership.generation = reader.number();
    peer.plain_allowed = reader.number() == 1;
    peer.membership.rank_map_hash = reader.digest();
    peer.membership.program_hash = reader.digest();
    peer.membership.instance_id = reader.text();
    peer.membership.program = reader.text();
    if (!reader.complete()) {
        return Error(Errc::protocol, "the membership that a rank sent is malformed");
    }
    return peer;
}

Result<void> check_agreement(
    Membership const& ours,
    std::uint32_t our_size,
    PeerMembership const& theirs,
    std::string const& where
) {
    auto const& other = theirs.membership;
    if (ours.instance_id != other.instance_id) {
        return conflict(
            ours,
            theirs,
            where,
            fmt::format("instance {} here, {} there", ours.instance_id, other.instance_id)
        );
    }
    if (ours.generation != other.generation) {
        return conflict(
            ours,
            theirs,
            where,
            fmt::format("generation {} here, {} there", ours.generation, other.generation)
        );
    }
    if (our_size != theirs.size || ours.rank_map_hash != other.rank_map_hash) {
        return conflict(
            ours,
            theirs,
            where,
            fmt::format(
                "rank map {} of {} ranks here, {} of {} ranks there",
                short_hex(ours.rank_map_hash),
                our_size,
                short_hex(other.rank_map_hash),
                theirs.size
            )
        );
    }
    if (ours.program_hash != other.program_hash) {
        return conflict(
            ours,
            theirs,
            where,
            fmt::format(
                "program {} ({}) here, {} ({}) there; all nodes need the same exo and model file",
                ours.program,
                short_hex(ours.program_hash),
                other.program,
                short_hex(other.program_hash)
            )
        );
    }
    return {};
}

} // namespace exo::collective
