// SPDX-License-Identifier: Apache-2.0
//
// The ranks of one instance, joined for collective operations. Every rank makes the same calls in
// the same order. Calls block the caller (the compute thread); an I/O thread of the implementation
// moves the bytes and beats, so that a send never waits for a peer's compute (specs/engine.md).
//
// The first error is final: it latches, every later call returns it at once, and the runner ends.
// After a reduction all ranks hold identical bits.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <span>

namespace exo::collective {

class Group {
public:
    virtual ~Group() = default;

    [[nodiscard]] virtual std::uint32_t rank() const = 0;
    [[nodiscard]] virtual std::uint32_t size() const = 0;

    // Bytes from one rank to another. Sizes are agreed by the program: a receive of another size
    // than was sent is Errc::protocol. Messages between two ranks keep their order.
    // REQUIRES: a rank other than the own.
    virtual Result<void> send(std::uint32_t to, BytesView bytes) = 0;
    virtual Result<void> receive(std::uint32_t from, std::span<std::uint8_t> bytes) = 0;

    // A message whose size only the sender knows (step plans). Limit: message_bytes_max.
    virtual Result<Bytes> receive_message(std::uint32_t from) = 0;

    // `bytes` of `root` to all. Same size on all ranks.
    virtual Result<void> broadcast(std::uint32_t root, std::span<std::uint8_t> bytes) = 0;

    // Sum over ranks, in rank order for each element; in place.
    virtual Result<void> all_reduce(std::span<float> values) = 0;

    // `all` holds size() parts of part.size() bytes, by rank.
    virtual Result<void> all_gather(BytesView part, std::span<std::uint8_t> all) = 0;

    virtual Result<void> barrier() = 0;

    // Latches an error from outside (a cancelled load, a dead parent): blocked calls return it.
    virtual void fail(Error error) = 0;

    // The latched error, or success.
    [[nodiscard]] virtual Result<void> health() const = 0;
};

constexpr std::size_t message_bytes_max = 64u << 20;

} // namespace exo::collective
