// SPDX-License-Identifier: Apache-2.0
//
// Messages of the node on their way from the reading thread to the engine thread.
#pragma once

#include "base/time.hpp"
#include "ipc/messages.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace exo::runner {

// A node sends no more requests than an instance may have waiting; beyond, the reader waits, and
// with it the node's writes.
constexpr std::size_t mailbox_messages_max = 1024;

class Mailbox {
public:
    void put(ipc::ToRunner message);

    // Nothing more will come: the node is gone.
    void close();

    // Waits at most `limit` for the first message; then all that are there.
    [[nodiscard]] std::deque<ipc::ToRunner> take(Duration limit);

    [[nodiscard]] bool closed() const;

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<ipc::ToRunner> messages_;
    bool closed_ = false;
};

} // namespace exo::runner
