// SPDX-License-Identifier: Apache-2.0
#include "net/wire/peer_id.hpp"

#include "base/text.hpp"
#include "net/wire/base58.hpp"

#include <algorithm>

namespace exo::net {
namespace {

constexpr std::uint8_t hash_identity = 0x00;
constexpr std::uint8_t hash_sha256 = 0x12;
constexpr std::size_t identity_bytes_max = 42; // Longer keys are hashed (libp2p peer-ids).
constexpr std::uint8_t cid_version = 0x01;
constexpr std::uint8_t cid_libp2p_key = 0x72;
constexpr std::size_t short_letters = 6;

Result<Bytes> from_base32(std::string_view text) {
    static constexpr std::string_view alphabet = "abcdefghijklmnopqrstuvwxyz234567";
    Bytes bytes;
    std::uint32_t bits = 0;
    int bits_count = 0;
    for (char const letter : to_lower(text)) {
        auto const digit = alphabet.find(letter);
        if (digit == std::string_view::npos) {
            return Error(
                Errc::invalid_argument, std::string("'") + letter + "' is no base32 letter"
            );
        }
        bits = (bits << 5 | static_cast<std::uint32_t>(digit)) & 0xfff;
        bits_count += 5;
        if (bits_count >= 8) {
            bits_count -= 8;
            bytes.push_back(static_cast<std::uint8_t>(bits >> bits_count));
        }
    }
    return bytes;
}

// The multihash within a CIDv1 of a libp2p key.
Result<Bytes> hash_of_cid(Result<Bytes> cid) {
    if (!cid) {
        return cid.error();
    }
    if (cid->size() < 2 || (*cid)[0] != cid_version || (*cid)[1] != cid_libp2p_key) {
        return Error(Errc::invalid_argument, "not a CID of a libp2p key");
    }
    cid->erase(cid->begin(), cid->begin() + 2);
    return cid;
}

// A peer id in base58 begins with "1" (identity) or "Qm" (SHA2-256); a CID with its base's letter.
Result<Bytes> decode(std::string_view text) {
    if (text.starts_with('1') || text.starts_with("Qm")) {
        return from_base58(text);
    }
    if (text.starts_with('b') || text.starts_with('B')) {
        return hash_of_cid(from_base32(text.substr(1).substr(0, base58_text_max)));
    }
    if (text.starts_with('z')) {
        return hash_of_cid(from_base58(text.substr(1)));
    }
    return Error(Errc::invalid_argument, "it begins with none of 1, Qm, b and z");
}

} // namespace

PeerId PeerId::of(PublicKey const& key) {
    auto const encoded = to_protobuf(key);
    Bytes bytes{hash_identity, static_cast<std::uint8_t>(encoded.size())};
    append(bytes, encoded);
    return PeerId(std::move(bytes));
}

Result<PeerId> PeerId::from_bytes(BytesView multihash) {
    bool const whole = multihash.size() >= 2 && multihash.size() == 2u + multihash[1];
    bool const identity = whole && multihash[0] == hash_identity && multihash[1] > 0 &&
                          multihash[1] <= identity_bytes_max;
    bool const sha256 = whole && multihash[0] == hash_sha256 && multihash[1] == 32;
    if (!identity && !sha256) {
        return Error(
            Errc::protocol,
            "no peer id: " + std::to_string(multihash.size()) + " bytes, no known hash"
        );
    }
    return PeerId(Bytes(multihash.begin(), multihash.end()));
}

Result<PeerId> PeerId::parse(std::string_view text) {
    auto const refuse = [&](std::string const& why) {
        std::string const shown(utf8_prefix(text, base58_text_max));
        return Error(Errc::invalid_argument, "'" + shown + "' is no peer id: " + why);
    };
    auto const bytes = decode(text);
    if (!bytes) {
        return refuse(bytes.error().text());
    }
    auto const peer = from_bytes(*bytes);
    if (!peer) {
        return refuse(peer.error().text());
    }
    return *peer;
}

std::string PeerId::text() const {
    return to_base58(bytes_);
}

std::string PeerId::short_text() const {
    auto const full = text();
    return full.substr(full.size() - std::min(full.size(), short_letters));
}

std::optional<PublicKey> PeerId::public_key() const {
    if (bytes_.empty() || bytes_[0] != hash_identity) {
        return std::nullopt;
    }
    auto const key = public_key_from_protobuf(BytesView(bytes_).subspan(2));
    return key ? std::optional(*key) : std::nullopt;
}

} // namespace exo::net
