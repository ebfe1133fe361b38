// SPDX-License-Identifier: Apache-2.0
#include "net/pnet/session.hpp"

#include "base/assert.hpp"
#include "net/crypto/sodium.hpp"

#include <sodium.h>

#include <algorithm>

namespace exo::net::pnet {

static_assert(nonce_bytes == crypto_stream_xsalsa20_NONCEBYTES);
static_assert(std::tuple_size_v<Psk> == crypto_stream_xsalsa20_KEYBYTES);

// The rest of a block that the last call began.
void KeyStream::apply_started_block(std::span<std::uint8_t>& bytes) {
    auto const count = std::min(bytes.size(), block_bytes - block_used_);
    for (std::size_t i = 0; i < count; ++i) {
        bytes[i] ^= block_[block_used_ + i];
    }
    block_used_ += count;
    bytes = bytes.subspan(count);
}

void KeyStream::apply(std::span<std::uint8_t> bytes) {
    apply_started_block(bytes);
    auto const whole = bytes.first(bytes.size() / block_bytes * block_bytes);
    if (!whole.empty()) {
        crypto_stream_xsalsa20_xor_ic(
            whole.data(), whole.data(), whole.size(), nonce_.data(), next_block_, psk_.data()
        );
        next_block_ += whole.size() / block_bytes;
        bytes = bytes.subspan(whole.size());
    }
    if (!bytes.empty()) {
        EXO_ASSERT(block_used_ == block_bytes);
        block_.fill(0);
        crypto_stream_xsalsa20_xor_ic(
            block_.data(), block_.data(), block_.size(), nonce_.data(), next_block_, psk_.data()
        );
        ++next_block_;
        block_used_ = 0;
        apply_started_block(bytes);
    }
}

Session::Session(Psk const& psk, Nonce const& own_nonce)
    : psk_(psk)
    , own_nonce_(own_nonce)
    , own_stream_(psk, own_nonce) {
    ensure_sodium();
}

BytesView Session::decrypt(std::span<std::uint8_t> bytes) {
    if (!peer_stream_) {
        auto const part = bytes.first(std::min(bytes.size(), nonce_bytes - peer_nonce_filled_));
        std::ranges::copy(part, std::span(peer_nonce_).subspan(peer_nonce_filled_).begin());
        peer_nonce_filled_ += part.size();
        bytes = bytes.subspan(part.size());
        if (peer_nonce_filled_ == nonce_bytes) {
            peer_stream_.emplace(psk_, peer_nonce_);
        }
    }
    if (peer_stream_) {
        peer_stream_->apply(bytes);
    }
    return bytes;
}

} // namespace exo::net::pnet
