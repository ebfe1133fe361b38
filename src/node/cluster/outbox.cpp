// SPDX-License-Identifier: Apache-2.0
#include "node/cluster/outbox.hpp"

#include "base/log.hpp"

namespace exo::node {
namespace {

constexpr Duration retry_interval = 200ms;
constexpr Duration idle_recheck = 10s;

} // namespace

Outbox::Outbox(Scope& scope, net::Host& host, net::PeerId peer, std::string protocol, Keep keep)
    : keep_(keep)
    , queue_(std::make_shared<Queue>())
    , writer_(scope.spawn_owned(
          "writing " + protocol, write_all(queue_, host, std::move(peer), std::move(protocol))
      )) {}

bool Outbox::push(Bytes message) {
    if (keep_ == Keep::newest) {
        queue_->messages.clear();
        queue_->bytes = 0;
    }
    if (queue_->messages.size() >= messages_max || queue_->bytes + message.size() > bytes_max) {
        return false;
    }
    queue_->bytes += message.size();
    queue_->messages.push_back(std::move(message));
    queue_->filled.notify();
    return true;
}

asio::awaitable<void> Outbox::write_all(
    std::shared_ptr<Queue> queue, net::Host& host, net::PeerId peer, std::string protocol
) {
    std::unique_ptr<net::Stream> stream;
    while (true) {
        while (queue->messages.empty()) {
            co_await queue->filled.wait(idle_recheck);
        }
        if (!stream) {
            auto opened = co_await host.open_stream(peer, protocol);
            if (!opened) {
                log::debug("cluster", "{} to {}: {}", protocol, peer.text(), opened.error().text());
                co_await sleep_for(retry_interval);
                continue;
            }
            stream = std::move(*opened);
        }
        auto const message = std::move(queue->messages.front());
        queue->messages.pop_front();
        queue->bytes -= message.size();
        auto const written = co_await net::write_message(*stream, message);
        if (!written) {
            // The message may have arrived or not: all of the cluster's messages may be repeated.
            stream.reset();
        }
    }
}

} // namespace exo::node
