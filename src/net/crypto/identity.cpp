// SPDX-License-Identifier: Apache-2.0
#include "net/crypto/identity.hpp"

#include "base/assert.hpp"
#include "base/entropy.hpp"
#include "net/crypto/file.hpp"
#include "net/crypto/sodium.hpp"

#include <sodium.h>

#include <algorithm>

namespace exo::net {
namespace {

static_assert(std::tuple_size_v<Signature> == crypto_sign_BYTES);
static_assert(std::tuple_size_v<Seed> == crypto_sign_SEEDBYTES);

// Field 1 (type) = 1 (Ed25519), field 2 (data) with its length, 64.
constexpr std::array<std::uint8_t, 4> private_key_prefix{0x08, 0x01, 0x12, 0x40};
constexpr std::size_t file_bytes = private_key_prefix.size() + crypto_sign_SECRETKEYBYTES;

Error damaged(std::filesystem::path const& file, std::string const& why) {
    return Error(
        Errc::corrupt,
        "identity " + file.string() + ": " + why + "; remove it to get a new identity"
    );
}

} // namespace

Identity Identity::from_seed(Seed const& seed) {
    ensure_sodium();
    Identity identity;
    EXO_ASSERT(
        crypto_sign_seed_keypair(
            identity.public_key_.bytes.data(), identity.secret_.data(), seed.data()
        ) == 0
    );
    identity.peer_id_ = PeerId::of(identity.public_key_);
    return identity;
}

Identity Identity::generate() {
    Seed seed{};
    fill_random(seed);
    auto identity = from_seed(seed);
    sodium_memzero(seed.data(), seed.size());
    return identity;
}

Identity::~Identity() {
    sodium_memzero(secret_.data(), secret_.size());
}

Result<Identity> Identity::load(std::filesystem::path const& file) {
    auto bytes = read_small_file(file, file_bytes);
    if (!bytes) {
        return bytes.error();
    }
    bool const has_prefix =
        bytes->size() == file_bytes &&
        std::equal(private_key_prefix.begin(), private_key_prefix.end(), bytes->begin());
    if (!has_prefix) {
        return damaged(file, "it is no Ed25519 private key of libp2p");
    }
    auto const secret = BytesView(*bytes).subspan(private_key_prefix.size());
    Seed seed{};
    std::ranges::copy(secret.first(seed.size()), seed.begin());
    auto identity = from_seed(seed);
    bool const matches = std::ranges::equal(secret, identity.secret_);
    sodium_memzero(seed.data(), seed.size());
    sodium_memzero(bytes->data(), bytes->size());
    if (!matches) {
        return damaged(file, "its public key does not belong to its secret key");
    }
    return identity;
}

Result<Identity> Identity::load_or_create(std::filesystem::path const& file) {
    auto loaded = load(file);
    if (loaded || loaded.error().code() != Errc::not_found) {
        return loaded;
    }
    auto created = generate();
    EXO_TRY(created.save(file));
    return created;
}

Result<void> Identity::save(std::filesystem::path const& file) const {
    Bytes bytes(private_key_prefix.begin(), private_key_prefix.end());
    append(bytes, secret_);
    auto result = replace_private_file(file, bytes);
    sodium_memzero(bytes.data(), bytes.size());
    return result;
}

Signature Identity::sign(BytesView message) const {
    Signature signature{};
    crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(), secret_.data());
    return signature;
}

bool verify(PublicKey const& key, BytesView message, BytesView signature) {
    ensure_sodium();
    return signature.size() == crypto_sign_BYTES &&
           crypto_sign_verify_detached(
               signature.data(), message.data(), message.size(), key.bytes.data()
           ) == 0;
}

} // namespace exo::net
