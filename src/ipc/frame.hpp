// SPDX-License-Identifier: Apache-2.0
//
// Frames between a node and its runner: a length of 4 bytes, big-endian, and as many bytes of
// MessagePack, made of the messages' descriptions (messages.hpp). Pure: bytes in, messages out.
#pragma once

#include "base/bytes.hpp"
#include "ipc/messages.hpp"

#include <optional>

namespace exo::ipc {

// A prompt of the longest context is some MB; more is a broken peer.
constexpr std::size_t frame_bytes_max = 64u << 20;

// Error: limit when longer than frame_bytes_max.
[[nodiscard]] Result<Bytes> encode(ToRunner const& message);
[[nodiscard]] Result<Bytes> encode(FromRunner const& message);

// Cuts a stream of bytes into the documents of its frames.
class FrameReader {
public:
    // Takes the next bytes, cut anywhere.
    void feed(BytesView bytes);

    // The next whole document; nothing when more bytes are needed. An error (limit) is final: the
    // stream cannot be followed any more.
    [[nodiscard]] Result<std::optional<Bytes>> next();

    // Fed bytes that no document has taken: at the end of the stream they were cut off.
    [[nodiscard]] std::size_t bytes_waiting() const { return buffer_.size() - start_; }

private:
    Bytes buffer_;
    std::size_t start_ = 0; // Bytes before it are taken.
};

// Errors: protocol, with what the document lacks.
[[nodiscard]] Result<ToRunner> decode_to_runner(BytesView document);
[[nodiscard]] Result<FromRunner> decode_from_runner(BytesView document);

} // namespace exo::ipc
