// SPDX-License-Identifier: Apache-2.0
#include "net/noise/transport.hpp"

#include <algorithm>

namespace exo::net::noise {
namespace {

constexpr std::size_t length_bytes = 2;

// Of the message that `bytes` begin with, its length included. REQUIRES: length_bytes of it.
std::size_t length_of(BytesView bytes) {
    return length_bytes + (static_cast<std::size_t>(bytes[0]) << 8 | bytes[1]);
}

bool is_whole(BytesView bytes) {
    return bytes.size() >= length_bytes && bytes.size() >= length_of(bytes);
}

} // namespace

Transport::Transport(CipherState sending, CipherState receiving)
    : sending_(std::move(sending))
    , receiving_(std::move(receiving)) {}

void Transport::encrypt(BytesView plain, Bytes& to) {
    auto const messages_count = (plain.size() + plain_bytes_max - 1) / plain_bytes_max;
    to.reserve(to.size() + plain.size() + messages_count * (length_bytes + tag_bytes));
    while (!plain.empty()) {
        auto const part = plain.first(std::min(plain.size(), plain_bytes_max));
        auto const length = part.size() + tag_bytes;
        to.push_back(static_cast<std::uint8_t>(length >> 8));
        to.push_back(static_cast<std::uint8_t>(length));
        sending_.encrypt({}, part, to);
        plain = plain.subspan(part.size());
    }
}

Result<void> Transport::decrypt(BytesView bytes, Bytes& to) {
    complete_started(bytes);
    if (is_whole(started_)) {
        EXO_TRY(decrypt_whole(started_, to));
        started_.clear();
    }
    while (is_whole(bytes)) {
        auto const message = bytes.first(length_of(bytes));
        EXO_TRY(decrypt_whole(message, to));
        bytes = bytes.subspan(message.size());
    }
    append(started_, bytes);
    return {};
}

// Moves what belongs to a message that began earlier from `bytes` to it.
void Transport::complete_started(BytesView& bytes) {
    while (!started_.empty() && !bytes.empty() && !is_whole(started_)) {
        auto const wanted = started_.size() < length_bytes ? length_bytes : length_of(started_);
        auto const part = bytes.first(std::min(bytes.size(), wanted - started_.size()));
        append(started_, part);
        bytes = bytes.subspan(part.size());
    }
}

Result<void> Transport::decrypt_whole(BytesView message, Bytes& to) {
    if (!receiving_.decrypt({}, message.subspan(length_bytes), to)) {
        return Error(Errc::protocol, "noise: a message that is not authentic");
    }
    return {};
}

} // namespace exo::net::noise
