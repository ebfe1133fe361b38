// SPDX-License-Identifier: Apache-2.0
#include "net/crypto/psk.hpp"

#include "base/assert.hpp"

#include <openssl/evp.h>

#include <memory>

namespace exo::net {

Psk psk_of_namespace(std::string_view network_namespace) {
    static constexpr std::string_view prefix = "exo_discovery_network";
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> const hash(
        EVP_MD_CTX_new(), &EVP_MD_CTX_free
    );
    Psk psk{};
    unsigned int bytes_count = 0;
    // These fail only when OpenSSL was built without SHA-3 or memory is out.
    EXO_ASSERT(hash != nullptr);
    EXO_ASSERT(EVP_DigestInit_ex(hash.get(), EVP_sha3_256(), nullptr) == 1);
    EXO_ASSERT(EVP_DigestUpdate(hash.get(), prefix.data(), prefix.size()) == 1);
    EXO_ASSERT(
        EVP_DigestUpdate(hash.get(), network_namespace.data(), network_namespace.size()) == 1
    );
    EXO_ASSERT(EVP_DigestFinal_ex(hash.get(), psk.data(), &bytes_count) == 1);
    EXO_ASSERT(bytes_count == psk.size());
    return psk;
}

} // namespace exo::net
