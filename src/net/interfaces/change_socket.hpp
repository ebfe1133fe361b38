// SPDX-License-Identifier: Apache-2.0
//
// A socket that becomes readable when a link or an address of this machine changes: netlink on
// Linux, a routing socket on macOS. What has changed a scan tells better than its messages, so
// nothing of them is understood.
#pragma once

#include "base/result.hpp"

namespace exo::net {

class ChangeSocket {
public:
    // Error: io; some sandboxes forbid it, and then only looking again helps.
    [[nodiscard]] static Result<ChangeSocket> open();

    ChangeSocket(ChangeSocket&& other) noexcept;
    ChangeSocket& operator=(ChangeSocket&&) = delete;
    ~ChangeSocket();

    // Gives the descriptor away: the caller closes it.
    [[nodiscard]] int release();

    // Takes all messages that wait on `descriptor`, without waiting for one.
    static void drain(int descriptor);

private:
    explicit ChangeSocket(int descriptor)
        : descriptor_(descriptor) {}

    int descriptor_ = -1;
};

} // namespace exo::net
