// SPDX-License-Identifier: Apache-2.0
#include "runner/mailbox.hpp"

#include <utility>

namespace exo::runner {

void Mailbox::put(ipc::ToRunner message) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return messages_.size() < mailbox_messages_max || closed_; });
    messages_.push_back(std::move(message));
    changed_.notify_all();
}

void Mailbox::close() {
    std::scoped_lock const lock(mutex_);
    closed_ = true;
    changed_.notify_all();
}

std::deque<ipc::ToRunner> Mailbox::take(Duration limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return !messages_.empty() || closed_; });
    auto messages = std::exchange(messages_, {});
    changed_.notify_all();
    return messages;
}

bool Mailbox::closed() const {
    std::scoped_lock const lock(mutex_);
    return closed_;
}

} // namespace exo::runner
