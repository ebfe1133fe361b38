// SPDX-License-Identifier: Apache-2.0
#include "net/crypto/psk.hpp"

#include "base/assert.hpp"
#include "base/bytes.hpp"

#include <openssl/evp.h>

#include <memory>

namespace exo::net {

namespace {

using Hash = std::array<std::uint8_t, 32>;

// SHA3-256 of one after the other, without a separator.
Hash hash_of(std::string_view prefix, BytesView rest) {
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> const context(
        EVP_MD_CTX_new(), &EVP_MD_CTX_free
    );
    Hash hash{};
    unsigned int bytes_count = 0;
    // These fail only when OpenSSL was built without SHA-3 or memory is out.
    EXO_ASSERT(context != nullptr);
    EXO_ASSERT(EVP_DigestInit_ex(context.get(), EVP_sha3_256(), nullptr) == 1);
    EXO_ASSERT(EVP_DigestUpdate(context.get(), prefix.data(), prefix.size()) == 1);
    EXO_ASSERT(EVP_DigestUpdate(context.get(), rest.data(), rest.size()) == 1);
    EXO_ASSERT(EVP_DigestFinal_ex(context.get(), hash.data(), &bytes_count) == 1);
    EXO_ASSERT(bytes_count == hash.size());
    return hash;
}

} // namespace

Psk psk_of_namespace(std::string_view network_namespace) {
    return hash_of("exo_discovery_network", as_bytes(network_namespace));
}

std::string fingerprint(Psk const& psk) {
    auto const hash = hash_of("exo_key_fingerprint", psk);
    auto const digits = to_hex(BytesView(hash).first(4));
    return digits.substr(0, 4) + "-" + digits.substr(4);
}

} // namespace exo::net
