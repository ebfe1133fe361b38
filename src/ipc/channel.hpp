// SPDX-License-Identifier: Apache-2.0
//
// The runner's end of its line to the node: blocking calls on the socket that it inherited
// (`exo runner --ipc-fd N`). One thread reads; any may write.
#pragma once

#include "ipc/frame.hpp"

#include <mutex>

namespace exo::ipc {

class Channel {
public:
    // Takes ownership of the descriptor (a stream socket).
    explicit Channel(int descriptor);
    ~Channel();

    Channel(Channel const&) = delete;
    Channel& operator=(Channel const&) = delete;

    // Waits for the next message. Errors are final: io at the end of the stream (the node is gone,
    // so the runner must end), protocol, limit.
    [[nodiscard]] Result<ToRunner> read_message();

    // Whole frames, also with several writers; waits while the node does not read. An error (io)
    // is final: the node is gone.
    Result<void> write_message(FromRunner const& message);

private:
    int descriptor_;
    FrameReader reader_; // Only of the reading thread.
    std::mutex write_mutex_;
};

} // namespace exo::ipc
