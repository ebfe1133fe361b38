// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/watch.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#if defined(__linux__) && !defined(EXO_WATCH_WITH_POLL)
#define EXO_WATCH_WITH_EPOLL 1
#include <sys/epoll.h>
#endif

namespace exo::collective {
namespace {

constexpr std::uint32_t bell_tag = Watch::tags_max;

int milliseconds(Duration limit) {
    // Rounded up: a wait that ends just before its time would spin.
    auto const rounded = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
    return static_cast<int>(std::clamp<std::int64_t>(rounded, 0, 60'000));
}

#ifdef EXO_WATCH_WITH_EPOLL
std::uint32_t epoll_bits(Wanted wanted) {
    return (wanted.read ? std::uint32_t{EPOLLIN} : 0) |
           (wanted.write ? std::uint32_t{EPOLLOUT} : 0);
}
#endif

} // namespace

Bell::Bell() {
    int ends[2] = {-1, -1};
    // Without descriptors nothing of the program works.
    EXO_ASSERT(pipe(ends) == 0);
    for (int const end : ends) {
        (void)fcntl(end, F_SETFD, FD_CLOEXEC);
        (void)fcntl(end, F_SETFL, O_NONBLOCK);
    }
    read_end_ = Socket(ends[0]);
    write_end_ = Socket(ends[1]);
}

void Bell::ring() {
    char const byte = 1;
    // A full pipe rings already.
    (void)!write(write_end_.descriptor(), &byte, 1);
}

void Bell::clear() {
    std::array<char, 64> bytes;
    while (read(read_end_.descriptor(), bytes.data(), bytes.size()) > 0) {
    }
}

#ifdef EXO_WATCH_WITH_EPOLL

Watch::Watch()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    EXO_ASSERT(epoll_.descriptor() >= 0);
    epoll_event event{.events = EPOLLIN, .data = {.u32 = bell_tag}};
    (void)epoll_ctl(epoll_.descriptor(), EPOLL_CTL_ADD, bell_.descriptor(), &event);
}

void Watch::add(std::uint32_t tag, int descriptor) {
    EXO_ASSERT(tag < tags_max);
    std::lock_guard const lock(mutex_);
    entries_.push_back({.descriptor = descriptor, .tag = tag, .wanted = {}});
    epoll_event event{.events = 0, .data = {.u32 = tag}};
    (void)epoll_ctl(epoll_.descriptor(), EPOLL_CTL_ADD, descriptor, &event);
}

void Watch::want(std::uint32_t tag, Wanted wanted) {
    std::lock_guard const lock(mutex_);
    auto const entry = std::ranges::find(entries_, tag, &Entry::tag);
    if (entry == entries_.end() || entry->wanted == wanted) {
        return;
    }
    entry->wanted = wanted;
    epoll_event event{.events = epoll_bits(wanted), .data = {.u32 = tag}};
    (void)epoll_ctl(epoll_.descriptor(), EPOLL_CTL_MOD, entry->descriptor, &event);
}

void Watch::remove(std::uint32_t tag) {
    std::lock_guard const lock(mutex_);
    auto const entry = std::ranges::find(entries_, tag, &Entry::tag);
    if (entry != entries_.end()) {
        (void)epoll_ctl(epoll_.descriptor(), EPOLL_CTL_DEL, entry->descriptor, nullptr);
        entries_.erase(entry);
    }
}

std::vector<Happened> const& Watch::wait(Duration limit) {
    std::array<epoll_event, tags_max + 1> events;
    int const count = epoll_wait(
        epoll_.descriptor(), events.data(), static_cast<int>(events.size()), milliseconds(limit)
    );
    happened_.clear();
    for (int i = 0; i < count; ++i) {
        auto const& event = events[static_cast<std::size_t>(i)];
        if (event.data.u32 == bell_tag) {
            bell_.clear();
            continue;
        }
        bool const hung_up = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
        happened_.push_back({
            .tag = event.data.u32,
            .readable = hung_up || (event.events & EPOLLIN) != 0,
            .writable = (event.events & EPOLLOUT) != 0,
            .hung_up = hung_up,
        });
    }
    return happened_;
}

#else

Watch::Watch() = default;

void Watch::add(std::uint32_t tag, int descriptor) {
    EXO_ASSERT(tag < tags_max);
    std::lock_guard const lock(mutex_);
    entries_.push_back({.descriptor = descriptor, .tag = tag, .wanted = {}});
    bell_.ring();
}

void Watch::want(std::uint32_t tag, Wanted wanted) {
    std::lock_guard const lock(mutex_);
    auto const entry = std::ranges::find(entries_, tag, &Entry::tag);
    if (entry == entries_.end() || entry->wanted == wanted) {
        return;
    }
    // What is wanted less needs no wake-up now: one needless return of poll() tells the sleeper.
    bool const more =
        (wanted.read && !entry->wanted.read) || (wanted.write && !entry->wanted.write);
    entry->wanted = wanted;
    if (more) {
        bell_.ring();
    }
}

void Watch::remove(std::uint32_t tag) {
    std::lock_guard const lock(mutex_);
    std::erase_if(entries_, [tag](Entry const& entry) { return entry.tag == tag; });
    bell_.ring();
}

std::vector<Happened> const& Watch::wait(Duration limit) {
    std::vector<pollfd> polled{{.fd = bell_.descriptor(), .events = POLLIN, .revents = 0}};
    std::vector<std::uint32_t> tags{bell_tag};
    {
        std::lock_guard const lock(mutex_);
        for (auto const& entry : entries_) {
            int const bits = (entry.wanted.read ? POLLIN : 0) | (entry.wanted.write ? POLLOUT : 0);
            polled.push_back({entry.descriptor, static_cast<short>(bits), 0});
            tags.push_back(entry.tag);
        }
    }
    (void)poll(polled.data(), static_cast<nfds_t>(polled.size()), milliseconds(limit));
    happened_.clear();
    if (polled[0].revents != 0) {
        bell_.clear();
    }
    for (std::size_t i = 1; i < polled.size(); ++i) {
        int const bits = polled[i].revents;
        bool const hung_up = (bits & (POLLERR | POLLHUP | POLLNVAL)) != 0;
        if (bits != 0) {
            happened_.push_back({
                .tag = tags[i],
                .readable = hung_up || (bits & POLLIN) != 0,
                .writable = (bits & POLLOUT) != 0,
                .hung_up = hung_up,
            });
        }
    }
    return happened_;
}

#endif

} // namespace exo::collective
