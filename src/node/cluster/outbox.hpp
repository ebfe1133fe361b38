// SPDX-License-Identifier: Apache-2.0
//
// The messages that wait for one direct stream to one peer, and the coroutine that writes them. The
// stream is opened with the first message and again after it broke; messages keep their order.
#pragma once

#include "net/host/host.hpp"
#include "node/scope.hpp"

#include <deque>
#include <memory>
#include <string>

namespace exo::node {

class Outbox {
public:
    // A peer that lets so much pile up does not read; the owner gives it up.
    static constexpr std::size_t bytes_max = 32u << 20;
    static constexpr std::size_t messages_max = 4096;

    // What becomes of a message that was not written before the next one came.
    enum class Keep { all, newest };

    Outbox(Scope& scope, net::Host& host, net::PeerId peer, std::string protocol, Keep keep);

    // False when the limits are reached.
    [[nodiscard]] bool push(Bytes message);

private:
    struct Queue {
        std::deque<Bytes> messages;
        std::size_t bytes = 0;
        Notify filled;
    };

    static asio::awaitable<void> write_all(
        std::shared_ptr<Queue> queue, net::Host& host, net::PeerId peer, std::string protocol
    );

    Keep keep_;
    std::shared_ptr<Queue> queue_; // Shared with the coroutine, which may unwind after us.
    std::unique_ptr<Scope::Handle> writer_;
};

} // namespace exo::node
