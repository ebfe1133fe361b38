// SPDX-License-Identifier: Apache-2.0
//
// An authenticated and encrypted byte stream: what Noise is after its handshake. Each message has a
// 2-byte big-endian length before it; message borders mean nothing. Without I/O.
#pragma once

#include "base/bytes.hpp"
#include "net/noise/symmetric.hpp"

namespace exo::net::noise {

constexpr std::size_t message_bytes_max = 65535;
constexpr std::size_t plain_bytes_max = message_bytes_max - tag_bytes;

class Transport {
public:
    Transport(CipherState sending, CipherState receiving);

    // Appends to `to` as many messages as `plain` needs.
    void encrypt(BytesView plain, Bytes& to);

    // Takes the next bytes read, cut anywhere, and appends what they say. Error: protocol, when
    // they are not authentic; final.
    [[nodiscard]] Result<void> decrypt(BytesView bytes, Bytes& to);

private:
    void complete_started(BytesView& bytes);
    Result<void> decrypt_whole(BytesView message, Bytes& to);

    CipherState sending_;
    CipherState receiving_;
    Bytes started_; // A message that is not complete yet; at most one.
};

} // namespace exo::net::noise
