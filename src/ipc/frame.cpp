// SPDX-License-Identifier: Apache-2.0
#include "ipc/frame.hpp"

#include "model/json.hpp"

#include <fmt/format.h>

#include <cstring>

namespace exo::ipc {
namespace {

constexpr std::size_t length_bytes = 4;

std::size_t read_length(std::uint8_t const* bytes) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) {
        length = length << 8 | bytes[i];
    }
    return length;
}

Error too_long(std::size_t bytes) {
    return Error(
        Errc::limit,
        fmt::format("a message of {} bytes is longer than the {} allowed", bytes, frame_bytes_max)
    );
}

template <class Message>
Result<Bytes> frame_of(Message const& message) {
    Bytes const document = model::to_msgpack(message);
    if (document.size() > frame_bytes_max) {
        return too_long(document.size());
    }
    Bytes frame;
    frame.reserve(length_bytes + document.size());
    for (int shift = 24; shift >= 0; shift -= 8) {
        frame.push_back(static_cast<std::uint8_t>(document.size() >> shift));
    }
    append(frame, document);
    return frame;
}

// Whatever is wrong with a document, the other end has broken the protocol.
template <class Message>
Result<Message> message_of(BytesView document) {
    auto message = model::from_msgpack<Message>(document);
    if (!message) {
        return Error(
            Errc::protocol,
            fmt::format("a message between node and runner is wrong: {}", message.error().text())
        );
    }
    return std::move(*message);
}

} // namespace

Result<Bytes> encode(ToRunner const& message) {
    return frame_of(message);
}

Result<Bytes> encode(FromRunner const& message) {
    return frame_of(message);
}

void FrameReader::feed(BytesView bytes) {
    if (start_ > 0) { // What is taken makes room before more is held.
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(start_));
        start_ = 0;
    }
    append(buffer_, bytes);
}

Result<std::optional<Bytes>> FrameReader::next() {
    if (bytes_waiting() < length_bytes) {
        return std::optional<Bytes>();
    }
    std::uint8_t const* const frame = buffer_.data() + start_;
    std::size_t const length = read_length(frame);
    if (length > frame_bytes_max) {
        return too_long(length);
    }
    if (bytes_waiting() < length_bytes + length) {
        return std::optional<Bytes>();
    }
    start_ += length_bytes + length;
    return std::optional(Bytes(frame + length_bytes, frame + length_bytes + length));
}

Result<ToRunner> decode_to_runner(BytesView document) {
    return message_of<ToRunner>(document);
}

Result<FromRunner> decode_from_runner(BytesView document) {
    return message_of<FromRunner>(document);
}

} // namespace exo::ipc
