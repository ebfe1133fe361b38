// SPDX-License-Identifier: Apache-2.0
//
// The group of one rank: every collective is the identity. It has no thread and no socket, so a
// model on one node runs the same code as one on many.
#pragma once

#include "collective/group.hpp"

#include <mutex>
#include <optional>

namespace exo::collective {

class LocalGroup final : public Group {
public:
    [[nodiscard]] std::uint32_t rank() const override { return 0; }

    [[nodiscard]] std::uint32_t size() const override { return 1; }

    // There is no other rank to send to: calling one of these three is a bug.
    Result<void> send(std::uint32_t to, BytesView bytes) override;
    Result<void> receive(std::uint32_t from, std::span<std::uint8_t> bytes) override;
    Result<Bytes> receive_message(std::uint32_t from) override;

    Result<void> broadcast(std::uint32_t root, std::span<std::uint8_t> bytes) override;
    Result<void> all_reduce(std::span<float> values) override;
    Result<void> all_gather(BytesView part, std::span<std::uint8_t> all) override;
    Result<void> barrier() override;

    void fail(Error error) override;
    [[nodiscard]] Result<void> health() const override;

private:
    mutable std::mutex mutex_;
    std::optional<Error> error_;
};

} // namespace exo::collective
