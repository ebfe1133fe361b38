// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel.hpp"

#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

namespace exo::ipc {
namespace {

#ifdef MSG_NOSIGNAL
constexpr int send_flags = MSG_NOSIGNAL;
#else
constexpr int send_flags = 0; // SO_NOSIGPIPE is set instead.
#endif

} // namespace

Channel::Channel(int descriptor)
    : descriptor_(descriptor) {
#ifdef SO_NOSIGPIPE
    int const on = 1;
    (void)setsockopt(descriptor_, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

Channel::~Channel() {
    close(descriptor_);
}

Result<ToRunner> Channel::read_message() {
    std::array<std::uint8_t, 16 * 1024> bytes;
    while (true) {
        auto const document = reader_.next();
        if (!document) {
            return document.error();
        }
        if (*document) {
            return decode_to_runner(**document);
        }
        auto const count = recv(descriptor_, bytes.data(), bytes.size(), 0);
        if (count == 0) {
            return Error(Errc::io, "the node closed its line to this runner");
        }
        if (count > 0) {
            reader_.feed(BytesView(bytes).first(static_cast<std::size_t>(count)));
        } else if (errno != EINTR) {
            return errno_error("cannot read from the node");
        }
    }
}

Result<void> Channel::write_message(FromRunner const& message) {
    auto const frame = encode(message);
    if (!frame) {
        return frame.error();
    }
    std::lock_guard const lock(write_mutex_);
    BytesView rest = *frame;
    while (!rest.empty()) {
        auto const count = send(descriptor_, rest.data(), rest.size(), send_flags);
        if (count >= 0) {
            rest = rest.subspan(static_cast<std::size_t>(count));
        } else if (errno != EINTR) {
            return errno_error("cannot write to the node");
        }
    }
    return {};
}

} // namespace exo::ipc
