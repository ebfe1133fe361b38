// SPDX-License-Identifier: Apache-2.0
//
// What the I/O thread sleeps on: the group's sockets, each with what is wanted of it now, and a
// wake-up. Thread-safe: other threads change what is wanted while the I/O thread sleeps, and with
// epoll that costs one system call and wakes nobody. Elsewhere poll() is used, where a change has
// to wake the sleeper.
#pragma once

#include "base/time.hpp"
#include "collective/tcp/socket.hpp"

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace exo::collective {

// A wake-up call for a thread that sleeps in poll: stays until it is cleared.
class Bell {
public:
    Bell();

    void ring();
    void clear();

    [[nodiscard]] int descriptor() const { return read_end_.descriptor(); }

private:
    Socket read_end_;
    Socket write_end_;
};

struct Wanted {
    bool read = false;
    bool write = false;

    bool operator==(Wanted const&) const = default;
};

struct Happened {
    std::uint32_t tag = 0;
    bool readable = false; // Also when the connection is broken.
    bool writable = false;
    bool hung_up = false;
};

class Watch {
public:
    Watch();

    // REQUIRES: each tag once, below tags_max.
    void add(std::uint32_t tag, int descriptor);
    void want(std::uint32_t tag, Wanted wanted);
    // A descriptor that is to be closed, or whose end is known, must go.
    void remove(std::uint32_t tag);

    // Ends the current or next wait.
    void wake() { bell_.ring(); }

    // Waits until something happens, `limit` is over or wake() is called. One thread.
    [[nodiscard]] std::vector<Happened> const& wait(Duration limit);

    static constexpr std::uint32_t tags_max = 64;

private:
    struct Entry {
        int descriptor = -1;
        std::uint32_t tag = 0;
        Wanted wanted;
    };

    Bell bell_;
    std::mutex mutex_;
    std::vector<Entry> entries_;
    std::vector<Happened> happened_;
    Socket epoll_;
};

} // namespace exo::collective
