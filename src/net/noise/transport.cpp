// SPDX-License-Identifier: Apache-2.0
#include "net/noise/transport.hpp"

#include <algorithm>

namespace exo::net::noise {
namespace {

constexpr std::size_t length_bytes = 2;

} // namespace

Transport::Transport(CipherState sending, CipherState receiving)
    : sending_(std::move(sending))
    , receiving_(std::move(receiving)) {}

void Transport::encrypt(BytesView plain, Bytes& to) {
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
    append(started_, bytes);
    BytesView rest = started_;
    while (rest.size() >= length_bytes) {
        std::size_t const length = static_cast<std::size_t>(rest[0]) << 8 | rest[1];
        if (rest.size() < length_bytes + length) {
            break;
        }
        if (!receiving_.decrypt({}, rest.subspan(length_bytes, length), to)) {
            return Error(Errc::protocol, "noise: a message that is not authentic");
        }
        rest = rest.subspan(length_bytes + length);
    }
    started_.erase(started_.begin(), started_.end() - static_cast<std::ptrdiff_t>(rest.size()));
    return {};
}

} // namespace exo::net::noise
