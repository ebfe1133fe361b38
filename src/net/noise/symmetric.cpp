// SPDX-License-Identifier: Apache-2.0
#include "net/noise/symmetric.hpp"

#include "base/assert.hpp"
#include "net/crypto/sodium.hpp"

#include <sodium.h>

#include <algorithm>
#include <limits>

namespace exo::net::noise {
namespace {

static_assert(tag_bytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(std::tuple_size_v<Key> == crypto_hash_sha256_BYTES);

constexpr std::string_view protocol_name = "Noise_XX_25519_ChaChaPoly_SHA256";
static_assert(protocol_name.size() == std::tuple_size_v<Key>); // Needs no hashing then (5.2).

Key hmac(Key const& key, BytesView data) {
    crypto_auth_hmacsha256_state state;
    Key result{};
    crypto_auth_hmacsha256_init(&state, key.data(), key.size());
    crypto_auth_hmacsha256_update(&state, data.data(), data.size());
    crypto_auth_hmacsha256_final(&state, result.data());
    sodium_memzero(&state, sizeof state);
    return result;
}

// HKDF with two outputs (section 4.3).
std::pair<Key, Key> derive(Key const& chaining_key, BytesView input) {
    auto temporary = hmac(chaining_key, input);
    std::array<std::uint8_t, 1> const one{1};
    auto const first = hmac(temporary, one);
    Bytes second_input(first.begin(), first.end());
    second_input.push_back(2);
    auto const second = hmac(temporary, second_input);
    sodium_memzero(temporary.data(), temporary.size());
    sodium_memzero(second_input.data(), second_input.size());
    return {first, second};
}

} // namespace

CipherState::~CipherState() {
    sodium_memzero(key_.data(), key_.size());
}

CipherState::Nonce CipherState::next_nonce() {
    // The last value is reserved (section 5.1); no connection lives for 2^64 messages.
    EXO_ASSERT(counter_ < std::numeric_limits<std::uint64_t>::max());
    Nonce nonce{};
    for (std::size_t i = 0; i < 8; ++i) {
        nonce[4 + i] = static_cast<std::uint8_t>(counter_ >> (8 * i));
    }
    ++counter_;
    return nonce;
}

void CipherState::encrypt(BytesView associated, BytesView plain, Bytes& to) {
    auto const nonce = next_nonce();
    auto const begin = to.size();
    to.resize(begin + plain.size() + tag_bytes);
    crypto_aead_chacha20poly1305_ietf_encrypt(
        to.data() + begin,
        nullptr,
        plain.data(),
        plain.size(),
        associated.data(),
        associated.size(),
        nullptr,
        nonce.data(),
        key_.data()
    );
}

bool CipherState::decrypt(BytesView associated, BytesView cipher, Bytes& to) {
    if (cipher.size() < tag_bytes) {
        return false;
    }
    auto const nonce = next_nonce();
    auto const begin = to.size();
    to.resize(begin + cipher.size() - tag_bytes);
    auto const result = crypto_aead_chacha20poly1305_ietf_decrypt(
        to.data() + begin,
        nullptr,
        nullptr,
        cipher.data(),
        cipher.size(),
        associated.data(),
        associated.size(),
        nonce.data(),
        key_.data()
    );
    if (result != 0) {
        to.resize(begin);
    }
    return result == 0;
}

SymmetricState::SymmetricState()
    : chaining_key_{}
    , hash_{} {
    ensure_sodium();
    std::ranges::copy(as_bytes(protocol_name), hash_.begin());
    chaining_key_ = hash_;
    mix_hash({}); // The empty prologue.
}

SymmetricState::~SymmetricState() {
    sodium_memzero(chaining_key_.data(), chaining_key_.size());
}

void SymmetricState::mix_hash(BytesView data) {
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, hash_.data(), hash_.size());
    crypto_hash_sha256_update(&state, data.data(), data.size());
    crypto_hash_sha256_final(&state, hash_.data());
}

void SymmetricState::mix_key(Key const& shared_secret) {
    auto const [chaining_key, key] = derive(chaining_key_, shared_secret);
    chaining_key_ = chaining_key;
    cipher_.emplace(key);
}

void SymmetricState::encrypt_and_hash(BytesView plain, Bytes& to) {
    auto const begin = to.size();
    if (cipher_) {
        cipher_->encrypt(hash_, plain, to);
    } else {
        append(to, plain);
    }
    mix_hash(BytesView(to).subspan(begin));
}

bool SymmetricState::decrypt_and_hash(BytesView cipher, Bytes& to) {
    if (!cipher_) {
        append(to, cipher);
    } else if (!cipher_->decrypt(hash_, cipher, to)) {
        return false;
    }
    mix_hash(cipher);
    return true;
}

std::pair<CipherState, CipherState> SymmetricState::split() const {
    auto const [initiator, responder] = derive(chaining_key_, {});
    return {CipherState(initiator), CipherState(responder)};
}

} // namespace exo::net::noise
