// SPDX-License-Identifier: Apache-2.0
#include "net/dnssd/driver/avahi_poll.hpp"

#include "base/log.hpp"
#include "net/mdns/packet.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace asio = boost::asio;
using exo::net::dnssd::AsioAvahiPoll;

namespace {

bool is_datagram_of_ip(int descriptor) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    int type = 0;
    socklen_t type_size = sizeof(type);
    return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
           type == SOCK_DGRAM &&
           getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
           (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

// Avahi's times are of the wall clock.
std::chrono::microseconds until(timeval const& time) {
    auto const since_epoch =
        std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    auto const now = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch()
    );
    return std::max(since_epoch - now, std::chrono::microseconds(0));
}

} // namespace

// The types that Avahi's interface leaves to its implementer.

struct AvahiWatch : std::enable_shared_from_this<AvahiWatch> {
    AvahiWatch(AsioAvahiPoll& owner, int fd, AvahiWatchCallback on_event, void* data)
        : poll(owner)
        , descriptor(owner.executor_)
        , avahi_fd(fd)
        , is_guarded(owner.admit_ && is_datagram_of_ip(fd))
        , callback(on_event)
        , userdata(data) {
        int const duplicate = dup(fd);
        boost::system::error_code error;
        if (duplicate >= 0) {
            descriptor.assign(duplicate, error);
        }
        if (duplicate < 0 || error) {
            exo::log::warning("dns-sd", "Avahi's descriptor {} cannot be watched", fd);
        }
    }

    void close() {
        is_wanted = false;
        boost::system::error_code ignored;
        descriptor.close(ignored);
    }

    void wait() {
        if ((events & POLLIN) != 0 && !std::exchange(reading, true)) {
            wait_for(asio::posix::stream_descriptor::wait_read, reading);
        }
        if ((events & POLLOUT) != 0 && !std::exchange(writing, true)) {
            wait_for(asio::posix::stream_descriptor::wait_write, writing);
        }
    }

    void wait_for(asio::posix::stream_descriptor::wait_type what, bool& pending) {
        if (!descriptor.is_open()) {
            return;
        }
        descriptor.async_wait(what, [self = shared_from_this(), &pending](auto error) {
            pending = false; // Of `self`.
            if (!error && self->is_wanted) {
                self->on_ready();
            }
        });
    }

    void on_ready() {
        pollfd ready{.fd = avahi_fd, .events = static_cast<short>(events), .revents = 0};
        if (::poll(&ready, 1, 0) > 0 && (!is_guarded || is_admitted())) {
            happened = static_cast<AvahiWatchEvent>(ready.revents);
            callback(this, avahi_fd, happened, userdata); // It may free this watch.
            happened = AvahiWatchEvent{};
        }
        if (is_wanted) {
            wait();
        }
    }

    // Looks at the next datagram, and takes it away if Avahi is not to see it.
    [[nodiscard]] bool is_admitted() const {
        auto& buffer = poll.datagram_;
        auto const size = recv(avahi_fd, buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
        if (size < 0) {
            return true; // An error of the socket is Avahi's to see.
        }
        bool const admitted = poll.admit_({buffer.data(), static_cast<std::size_t>(size)});
        return admitted || recv(avahi_fd, buffer.data(), 1, MSG_DONTWAIT) < 0;
    }

    AsioAvahiPoll& poll;
    asio::posix::stream_descriptor descriptor; // A duplicate of avahi_fd.
    int avahi_fd;
    bool is_guarded;
    AvahiWatchCallback callback;
    void* userdata;
    AvahiWatchEvent events{};
    AvahiWatchEvent happened{};
    bool is_wanted = true;
    bool reading = false;
    bool writing = false;
};

struct AvahiTimeout : std::enable_shared_from_this<AvahiTimeout> {
    AvahiTimeout(AsioAvahiPoll& owner, AvahiTimeoutCallback on_time, void* data)
        : poll(owner)
        , timer(owner.executor_)
        , callback(on_time)
        , userdata(data) {}

    // Null: disabled.
    void update(timeval const* time) {
        ++generation;
        timer.cancel();
        if (time == nullptr) {
            return;
        }
        timer.expires_after(until(*time));
        timer.async_wait([self = shared_from_this(), set = generation](auto error) {
            // A timer that had already fired cannot be cancelled: hence the generation.
            if (!error && self->generation == set) {
                self->callback(self.get(), self->userdata); // It may free this timeout.
            }
        });
    }

    AsioAvahiPoll& poll;
    asio::steady_timer timer;
    AvahiTimeoutCallback callback;
    void* userdata;
    std::uint64_t generation = 0;
};

namespace exo::net::dnssd {

AsioAvahiPoll::AsioAvahiPoll(asio::any_io_executor executor, Admit admit)
    : executor_(std::move(executor))
    , admit_(std::move(admit))
    , datagram_(mdns::packet_bytes_max + 1) {
    api_.userdata = this;
    api_.watch_new = [](AvahiPoll const* api,
                        int fd,
                        AvahiWatchEvent events,
                        AvahiWatchCallback on_event,
                        void* data) {
        auto& self = *static_cast<AsioAvahiPoll*>(api->userdata);
        auto const watch = std::make_shared<AvahiWatch>(self, fd, on_event, data);
        self.watches_.insert(watch);
        watch->events = events;
        watch->wait();
        return watch.get();
    };
    api_.watch_update = [](AvahiWatch* watch, AvahiWatchEvent events) {
        watch->events = events;
        watch->wait();
    };
    api_.watch_get_events = [](AvahiWatch* watch) { return watch->happened; };
    api_.watch_free = [](AvahiWatch* watch) {
        watch->close();
        watch->poll.watches_.erase(watch->shared_from_this());
    };
    api_.timeout_new =
        [](AvahiPoll const* api, timeval const* time, AvahiTimeoutCallback on_time, void* data) {
            auto& self = *static_cast<AsioAvahiPoll*>(api->userdata);
            auto const timeout = std::make_shared<AvahiTimeout>(self, on_time, data);
            self.timeouts_.insert(timeout);
            timeout->update(time);
            return timeout.get();
        };
    api_.timeout_update = [](AvahiTimeout* timeout, timeval const* time) { timeout->update(time); };
    api_.timeout_free = [](AvahiTimeout* timeout) {
        timeout->update(nullptr);
        timeout->poll.timeouts_.erase(timeout->shared_from_this());
    };
}

AsioAvahiPoll::~AsioAvahiPoll() {
    for (auto const& watch : watches_) {
        watch->close();
    }
    for (auto const& timeout : timeouts_) {
        timeout->update(nullptr);
    }
}

} // namespace exo::net::dnssd
