// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/core.hpp"

#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <poll.h>
#include <sched.h>

namespace exo::collective {
namespace {

// What is queued at the end goes on as long as it moves. Then the others' own end gets a moment to
// come: closing before it could take our last word back.
constexpr Duration goodbye_limit = 10s;
constexpr Duration goodbye_stall_limit = 1s;
constexpr Duration goodbye_linger = 250ms;
constexpr Duration goodbye_look_interval = 5ms;
constexpr std::size_t failure_text_bytes_max = 1024;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

double seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

} // namespace

// ---- Exchange

void Exchange::send(std::uint32_t to, Operation operation, BytesView bytes) {
    EXO_ASSERT(outbound_count_ < ranks_max);
    outbound_[outbound_count_++] = {.to = to, .operation = operation, .bytes = bytes};
}

Inbound& Exchange::receive(std::uint32_t from, Operation operation, std::span<std::uint8_t> into) {
    EXO_ASSERT(inbound_count_ < ranks_max);
    auto& inbound = inbound_[inbound_count_++];
    inbound.from = from;
    inbound.operation = operation;
    inbound.into = into;
    return inbound;
}

std::size_t Exchange::awaited() {
    return static_cast<std::size_t>(std::ranges::count_if(inbound(), [](Inbound const& one) {
        return !one.done.load(std::memory_order_acquire);
    }));
}

Inbound& Exchange::receive_any_size(std::uint32_t from, Operation operation) {
    auto& inbound = receive(from, operation, {});
    inbound.any_size = true;
    return inbound;
}

// ---- life

TcpCore::TcpCore(
    std::uint32_t rank, std::uint32_t size, std::vector<Joined> joined, TcpOptions const& options
)
    : rank_(rank)
    , size_(size)
    , options_(options)
    , links_(size) {
    for (auto& one : joined) {
        std::uint32_t const peer = one.session.peer;
        links_[peer] = std::make_unique<Link>(std::move(one));
        watch_.add(peer, links_[peer]->socket().descriptor());
        refresh(*links_[peer]);
    }
    thread_ = std::thread([this] { work(); });
}

TcpCore::~TcpCore() {
    stopping_ = true;
    watch_.wake();
    thread_.join();
}

void TcpCore::latch(Error error) {
    {
        std::lock_guard const lock(latch_mutex_);
        if (error_) {
            return;
        }
        log::warning("collective", "rank {}: {}", rank_, error.text());
        error_ = std::move(error);
        failed_ = true;
    }
    bell_.ring();
    watch_.wake();
}

Result<void> TcpCore::health() const {
    if (!failed_) {
        return {};
    }
    std::lock_guard const lock(latch_mutex_);
    return *error_;
}

std::string TcpCore::describe() const {
    std::string text = fmt::format("{} ranks over TCP:", size_);
    for (auto const& link : links_) {
        if (link) {
            text += fmt::format(" {} ({});", link->name(), link->plain() ? "plain" : "encrypted");
        }
    }
    text.pop_back();
    return text;
}

std::vector<bool> TcpCore::within_machine() const {
    std::vector<bool> within(size_);
    for (auto const& link : links_) {
        if (link) {
            within[link->peer()] = link->within_machine();
        }
    }
    return within;
}

// ---- the caller

Result<void> TcpCore::run(Exchange& exchange) {
    EXO_TRY(health());
    auto const result = run_to_end(exchange);
    if (result) {
        return {};
    }
    latch(result.error());
    for (auto const& inbound : exchange.inbound()) {
        links_[inbound.from]->withdraw();
    }
    return health(); // The first error, which may be another one.
}

Result<void> TcpCore::run_to_end(Exchange& exchange) {
    for (auto& inbound : exchange.inbound()) {
        auto& link = *links_[inbound.from];
        EXO_TRY(link.post(inbound));
        refresh(link);
    }
    Wait wait = begin_wait();
    while (true) {
        auto const wrote = write_pending(exchange);
        if (!wrote) {
            return wrote.error();
        }
        auto const read = read_pending(exchange);
        if (!read) {
            return read.error();
        }
        std::size_t const awaited = exchange.awaited();
        if (awaited == 0 && std::ranges::all_of(exchange.outbound(), &Outbound::done)) {
            end_wait(wait);
            settle(exchange);
            return {};
        }
        EXO_TRY(health());
        if (*wrote || *read) {
            end_wait(wait);
            wait = begin_wait();
        } else if (!go_on_spinning(wait)) {
            sleep(exchange, awaited);
        }
    }
}

TcpCore::Wait TcpCore::begin_wait() {
    return {.spins = options_.spin > Duration(0) && spin_policy_.next_wait_spins()};
}

// True while it is worth looking again.
bool TcpCore::go_on_spinning(Wait& wait) {
    if (!wait.spins) {
        return false;
    }
    TimePoint const time = now();
    if (!wait.spin_end) {
        wait.spin_end = time + options_.spin;
    }
    if (time >= *wait.spin_end) {
        wait.spins = false; // The other rank computes for longer; the core was not missed.
        return false;
    }
    (void)sched_yield();
    if (now() - time < core_taken_min) {
        return true;
    }
    wait.spins = false;
    spin_policy_.core_was_taken();
    return false;
}

void TcpCore::end_wait(Wait const& wait) {
    if (wait.spins && wait.spin_end) {
        spin_policy_.paid();
    }
}

// True when something was queued.
Result<bool> TcpCore::write_pending(Exchange& exchange) {
    bool progress = false;
    auto const patience =
        exchange.awaited() > 0 ? Link::Patience::waits_anyway : Link::Patience::goes_on;
    for (auto& outbound : exchange.outbound()) {
        if (outbound.done()) {
            continue;
        }
        auto& link = *links_[outbound.to];
        if (link.ended()) {
            return link.ended_error();
        }
        std::size_t const before = outbound.queued;
        if (auto const written = link.write(outbound, patience); !written) {
            return explain(link, written.error());
        }
        progress = progress || outbound.done() || outbound.queued > before;
        refresh(link);
    }
    return progress;
}

// True when a message became complete.
Result<bool> TcpCore::read_pending(Exchange& exchange) {
    bool progress = false;
    for (auto& inbound : exchange.inbound()) {
        if (inbound.done.load(std::memory_order_acquire)) {
            continue;
        }
        auto& link = *links_[inbound.from];
        EXO_TRY(link.read(now()));
        if (link.take_reader_busy()) {
            refresh(link);
        }
        progress = progress || inbound.done.load(std::memory_order_acquire);
    }
    return progress;
}

// `awaited`: messages that were missing when it was decided to sleep.
void TcpCore::sleep(Exchange& exchange, std::size_t awaited) {
    std::array<pollfd, ranks_max + 1> polled;
    nfds_t count = 0;
    polled[count++] = {.fd = bell_.descriptor(), .events = POLLIN, .revents = 0};
    for (auto& inbound : exchange.inbound()) {
        if (inbound.done.load(std::memory_order_acquire)) {
            continue;
        }
        auto& link = *links_[inbound.from];
        link.begin_sleep();
        polled[count++] = {.fd = link.socket().descriptor(), .events = POLLIN, .revents = 0};
    }
    // The I/O thread may have completed one meanwhile; from here on it does not.
    bool const arrived = exchange.awaited() < awaited;
    (void)poll(polled.data(), count, arrived ? 0 : -1);
    if (polled[0].revents != 0) {
        bell_.clear();
    }
    for (auto& inbound : exchange.inbound()) {
        links_[inbound.from]->end_sleep();
    }
}

void TcpCore::settle(Exchange& exchange) {
    for (auto const& inbound : exchange.inbound()) {
        auto& link = *links_[inbound.from];
        link.settle();
        (void)link.take_reader_busy();
        refresh(link);
    }
}

// ---- both

void TcpCore::refresh(Link& link) {
    std::lock_guard const lock(refresh_mutex_);
    watch_.want(link.peer(), link.wanted());
}

// A write that failed says only that the connection is broken; what the rank sent before may say
// why.
Error TcpCore::explain(Link& link, Error error) {
    if (auto const reason = link.read(now()); !reason) {
        return reason.error();
    }
    return link.ended() ? link.ended_error() : error;
}

// ---- the I/O thread

void TcpCore::work() {
    TimePoint next_tick = now() + options_.beat_interval;
    while (!stopping_ && !failed_) {
        for (auto const& happened : watch_.wait(next_tick - now())) {
            handle(happened, now());
            next_tick = tick_if_due(next_tick);
        }
        next_tick = tick_if_due(next_tick);
    }
    say_goodbye();
}

// Returns when the next one is due. Draining a few fast links must not hold up the beats.
TimePoint TcpCore::tick_if_due(TimePoint due) {
    TimePoint const time = now();
    if (time < due) {
        return due;
    }
    for (auto const& link : links_) {
        if (link && !failed_) {
            tick(*link, time);
        }
    }
    return time + options_.beat_interval;
}

void TcpCore::handle(Happened const& happened, TimePoint now) {
    auto& link = *links_[happened.tag];
    if (happened.writable) {
        auto const window_open = link.flush();
        if (!window_open) {
            latch(explain(link, window_open.error()));
            return;
        }
        if (*window_open) {
            bell_.ring();
        }
    }
    if (happened.readable) {
        if (auto const read = link.read_in_background(now); !read) {
            latch(read.error());
            return;
        }
    }
    if (happened.hung_up) {
        // It would be reported without end. Callers and ticks still read what is left.
        watch_.remove(happened.tag);
    }
    refresh(link);
}

void TcpCore::tick(Link& link, TimePoint now) {
    if (auto const beaten = link.beat(); !beaten) {
        latch(explain(link, beaten.error()));
        return;
    }
    // First hear, then judge: what has come may lie in the kernel.
    if (auto const read = link.read_in_background(now); !read) {
        latch(read.error());
        return;
    }
    if (auto const ended = link.ended()) {
        // Those who need it fail at once; all others after a while, for they may be ending too.
        if (now - *ended >= options_.beat_interval * options_.beats_missing_max) {
            latch(link.ended_error());
        }
        return;
    }
    // Counted, not timed: when this process itself stood still (a suspended machine, no memory),
    // the time that has passed says nothing of the other.
    if (link.count_missing() >= options_.beats_missing_max) {
        latch(Error(
            Errc::unavailable,
            fmt::format(
                "{} has been silent for {:.1f} s: its machine or the network between us failed",
                link.name(),
                seconds(now - link.last_heard())
            )
        ));
        return;
    }
    refresh(link);
}

void TcpCore::say_goodbye() {
    auto const result = health();
    auto const kind = result ? RecordKind::ended : RecordKind::failed;
    auto const text = result ? std::string() : result.error().text();
    std::vector<Link*> open;
    for (auto const& link : links_) {
        if (link && !link->ended() &&
            link->write_last(kind, utf8_prefix(text, failure_text_bytes_max))) {
            open.push_back(link.get());
        }
    }
    TimePoint const started = now();
    TimePoint moved = started;
    std::size_t queued_before = 0;
    while (!open.empty() && now() < started + goodbye_limit) {
        std::erase_if(open, [](Link* link) { return !link->flush() || link->discard_until_end(); });
        std::size_t queued = 0;
        for (auto const* link : open) {
            queued += link->queued();
            if (link->queued() == 0) {
                shut_down_writing(link->socket());
            }
        }
        if (queued != queued_before) {
            moved = now();
            queued_before = queued;
        }
        if (now() >= moved + (queued > 0 ? goodbye_stall_limit : goodbye_linger)) {
            return;
        }
        std::this_thread::sleep_for(goodbye_look_interval);
    }
}

} // namespace exo::collective
