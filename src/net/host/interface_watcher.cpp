// SPDX-License-Identifier: Apache-2.0
#include "net/host/interface_watcher.hpp"

#include "base/log.hpp"
#include "net/interfaces/change_socket.hpp"

namespace exo::net {

InterfaceWatcher::InterfaceWatcher(asio::any_io_executor const& executor)
    : socket_(executor) {
    auto opened = ChangeSocket::open();
    if (!opened) {
        log::info("net", "{}; looking again each 15 s instead", opened.error().text());
        return;
    }
    boost::system::error_code error;
    socket_.assign(opened->release(), error);
}

asio::awaitable<void> InterfaceWatcher::changed() {
    if (!socket_.is_open()) {
        co_await pause_until(now() + poll_interval);
        co_return;
    }
    constexpr auto readable = asio::posix::descriptor_base::wait_read;
    auto const came =
        co_await before(now() + poll_interval, socket_.async_wait(readable, as_value));
    if (came) {
        co_await pause_until(now() + settle_time);
        ChangeSocket::drain(socket_.native_handle());
    }
}

} // namespace exo::net
