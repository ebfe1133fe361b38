// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/link.hpp"

#include "base/assert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace exo::collective {
namespace {

// Several records at once, and still within a core's cache.
constexpr std::size_t buffer_bytes = 4 * (record_payload_bytes_max + 64);
// From here on the I/O thread is woken to drain a socket while the caller computes. Smaller
// messages, which are all of decoding, wait in the kernel for the caller: waking a thread for each
// would take more of a busy core than reading them later does.
constexpr std::size_t background_bytes_min = 48 * 1024;
// How many full buffers one read() takes before others, and the beats, get their turn.
constexpr int reads_max = 4;
// Sealed at once before the socket gets them: the other side can start to open the first records
// while the next are made.
constexpr std::size_t flush_bytes = 4 * record_payload_bytes_max;
// What is read at once where most of it is to go elsewhere than to the buffer: a header, and small
// messages behind a large one.
constexpr std::size_t head_bytes_max = 4 * 1024;
// From here on a message that is awaited is read in two pieces, to spare it the copy.
constexpr std::size_t read_apart_bytes_min = 32 * 1024;
// Bytes that nobody waits for yet are made room for in such pieces.
constexpr std::size_t unawaited_piece_bytes = 64 * 1024;

} // namespace

Link::Link(Joined joined)
    : socket_(std::move(joined.socket))
    , peer_(joined.session.peer)
    , where_(std::move(joined.where))
    , plain_(joined.session.plain)
    , within_machine_(is_within_machine(socket_))
    , last_heard_(0)
    , opener_(joined.session.opener)
    , buffer_(buffer_bytes)
    , end_(joined.session.rest.size())
    , sealer_(joined.session.sealer) {
    EXO_ASSERT(end_ <= buffer_bytes);
    std::ranges::copy(joined.session.rest, buffer_.begin());
    last_heard_ = std::chrono::steady_clock::now().time_since_epoch().count();
    set_low_water(socket_, background_bytes_min);
    publish_read_state();
}

std::string Link::name() const {
    return fmt::format("rank {} at {}", peer_, where_);
}

// ---- receiving

Result<void> Link::check(Inbound const& inbound, Operation operation, std::size_t bytes) const {
    if (operation != inbound.operation) {
        return malformed(fmt::format(
            "operation {} where {} was expected: the ranks run different programs",
            static_cast<int>(operation),
            static_cast<int>(inbound.operation)
        ));
    }
    if (!inbound.any_size && bytes != inbound.into.size()) {
        return malformed(fmt::format(
            "{} bytes where {} were expected: the ranks run different programs",
            bytes,
            inbound.into.size()
        ));
    }
    return {};
}

Result<void> Link::post(Inbound& inbound) {
    std::lock_guard const lock(read_mutex_);
    EXO_ASSERT(inbound_ == nullptr);
    if (!inbox_.empty()) {
        auto& message = inbox_.front();
        EXO_TRY(check(inbound, message.operation, message.bytes.size()));
        inbox_bytes_ -= message.bytes.size();
        if (inbound.any_size) {
            inbound.message = std::move(message.bytes);
        } else {
            std::ranges::copy(message.bytes, inbound.into.begin());
        }
        inbox_.pop_front();
        publish_read_state();
        inbound.done.store(true, std::memory_order_release);
        return {};
    }
    if (ended()) {
        return ended_error();
    }
    if (arriving_) {
        EXO_TRY(check(inbound, arriving_->operation, arriving_->total));
        if (!inbound.any_size) { // The rest need not take the way through the inbox.
            std::ranges::copy(arriving_->bytes, inbound.into.begin());
            arriving_->into = inbound.into;
            arriving_->bytes = {};
            inbox_bytes_ -= arriving_->total;
        }
    }
    inbound_ = &inbound;
    direct_ = true;
    publish_read_state(); // A full inbox may have kept the socket unread.
    return {};
}

void Link::withdraw() {
    std::lock_guard const lock(read_mutex_);
    withdrawn_ = true;
    inbound_ = nullptr;
    arriving_.reset();
    publish_read_state();
}

bool Link::inbox_full() const {
    return inbound_ == nullptr && inbox_bytes_ >= inbox_bytes_max;
}

Result<void> Link::read(TimePoint now) {
    std::lock_guard const lock(read_mutex_);
    auto result = read_locked(now);
    publish_read_state();
    return result;
}

Result<void> Link::read_in_background(TimePoint now) {
    std::unique_lock lock(read_mutex_, std::try_to_lock);
    if (!lock) {
        // Said first, then looked again: a caller that unlocked in between has not seen it.
        reader_busy_ = true;
        if (!lock.try_lock()) {
            return {};
        }
    }
    reader_busy_ = false;
    if (asleep_) {
        return {};
    }
    if (inbox_full()) {
        // Nothing can be heard where nothing is read; the rank is not to be blamed for that.
        note_heard(now);
        return {};
    }
    auto result = read_locked(now);
    leave_direct();
    publish_read_state();
    return result;
}

void Link::publish_read_state() {
    background_read_ = !direct_ && !withdrawn_ && !ended() && !inbox_full();
}

void Link::begin_sleep() {
    std::lock_guard const lock(read_mutex_);
    asleep_ = true;
    if (!wakes_at_once_) {
        wakes_at_once_ = true;
        set_low_water(socket_, 1);
    }
}

void Link::end_sleep() {
    std::lock_guard const lock(read_mutex_);
    asleep_ = false;
}

void Link::settle() {
    std::lock_guard const lock(read_mutex_);
    leave_direct();
    publish_read_state();
}

void Link::leave_direct() {
    if (!direct_ || !expects_large_ || inbound_ != nullptr) {
        return;
    }
    direct_ = false;
    if (wakes_at_once_) {
        wakes_at_once_ = false;
        set_low_water(socket_, background_bytes_min);
    }
}

void Link::note_heard(TimePoint now) {
    last_heard_ = now.time_since_epoch().count();
    heard_ = true;
}

std::uint32_t Link::count_missing() {
    missing_ = heard_.exchange(false) ? 0 : missing_ + 1;
    return missing_;
}

std::optional<TimePoint> Link::ended() const {
    auto const at = ended_at_.load();
    return at == 0 ? std::nullopt : std::optional(TimePoint(Duration(at)));
}

Result<void> Link::read_locked(TimePoint now) {
    EXO_TRY(parse()); // What came together with the end of the handshake.
    for (int i = 0; i < reads_max && !withdrawn_ && !ended() && !inbox_full(); ++i) {
        if (start_ > 0) {
            std::memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
            end_ -= start_;
            start_ = 0;
        }
        auto const target = plain_rest_ > 0 ? plain_target() : std::span<std::uint8_t>();
        bool const record_ends = target.size() == plain_rest_;
        auto const behind =
            std::span(buffer_).subspan(end_).first(record_ends ? room_to_read() : 0);
        auto const count =
            target.empty() ? receive_some(socket_, behind) : receive_some(socket_, target, behind);
        if (!count) {
            return broken(count.error().text() + "; its runner crashed or was killed");
        }
        if (!*count) {
            return {};
        }
        if (**count == 0) {
            return broken("it was closed without a word; its runner crashed or was killed");
        }
        note_heard(now);
        std::size_t const placed = std::min(**count, target.size());
        if (placed > 0) {
            plain_rest_ -= placed;
            note_filled(placed);
        }
        end_ += **count - placed;
        EXO_TRY(parse());
        if (**count < target.size() + behind.size()) {
            return {}; // There was no more.
        }
    }
    return {};
}

// Where the next bytes of a record go that is not sealed.
std::span<std::uint8_t> Link::plain_target() {
    bool const awaited = arriving_->into.has_value();
    return arriving_->next(awaited ? plain_rest_ : std::min(plain_rest_, unawaited_piece_bytes));
}

std::size_t Link::room_to_read() const {
    std::size_t const free = buffer_.size() - end_;
    bool const large = inbound_ != nullptr && inbound_->into.size() >= read_apart_bytes_min;
    bool const apart = plain_ && (plain_rest_ > 0 || (large && !arriving_));
    return apart ? std::min(free, head_bytes_max) : free;
}

Result<void> Link::parse() {
    while (!withdrawn_ && !ended() && plain_rest_ == 0 && end_ - start_ >= record_header_bytes) {
        auto const received = BytesView(buffer_).subspan(start_, end_ - start_);
        auto const header = parse_record_header(received);
        if (!header) {
            return unreadable(header.error());
        }
        std::size_t const size = record_header_bytes + body_bytes(*header);
        bool const whole = received.size() >= size;
        if (!whole && (header->sealed || !is_data(header->kind))) {
            return {};
        }
        start_ += std::min(size, received.size());
        if (!whole) {
            return begin_plain(*header, received.subspan(record_header_bytes));
        }
        auto const body = received.subspan(record_header_bytes, body_bytes(*header));
        EXO_TRY(on_record(*header, received.first(record_header_bytes), body));
    }
    return {};
}

Result<void> Link::on_record(RecordHeader const& header, BytesView header_bytes, BytesView body) {
    if (is_data(header.kind)) {
        return on_data(header, header_bytes, body);
    }
    Bytes payload(header.payload_bytes);
    if (auto const opened = opener_.open(header, header_bytes, body, payload); !opened) {
        return unreadable(opened.error());
    }
    switch (header.kind) {
    case RecordKind::beat:
        return {};
    case RecordKind::ended:
        ended_at_ = last_heard().time_since_epoch().count();
        shut_down_writing(socket_); // Lets it close without waiting for more of us.
        if (inbound_ != nullptr) {
            return ended_error();
        }
        return {};
    case RecordKind::failed:
        shut_down_writing(socket_);
        return Error(Errc::unavailable, fmt::format("{} failed: {}", name(), as_text(payload)));
    case RecordKind::message:
    case RecordKind::more:
    case RecordKind::membership:
    case RecordKind::chosen:
    case RecordKind::ready:
        break;
    }
    return malformed("a record of the handshake");
}

Result<void> Link::on_data(RecordHeader const& header, BytesView header_bytes, BytesView body) {
    EXO_TRY(begin_data(header));
    auto const into = arriving_->next(header.payload_bytes);
    if (auto const opened = opener_.open(header, header_bytes, body, into); !opened) {
        return unreadable(opened.error());
    }
    note_filled(into.size());
    return {};
}

// A record that is not sealed need not be whole: its bytes go to their place as they come.
Result<void> Link::begin_plain(RecordHeader const& header, BytesView part) {
    if (!opener_.accepts_plain()) {
        return unreadable(Error(Errc::protocol, "a record is not encrypted"));
    }
    EXO_TRY(begin_data(header));
    std::ranges::copy(part, arriving_->next(part.size()).begin());
    plain_rest_ = header.payload_bytes - part.size();
    note_filled(part.size());
    return {};
}

Result<void> Link::begin_data(RecordHeader const& header) {
    bool const starts = header.kind == RecordKind::message;
    if (starts == arriving_.has_value()) {
        return malformed("a message within a message, or none");
    }
    if (starts) {
        EXO_TRY(start_message(header));
    }
    std::size_t const missing = arriving_->total - arriving_->filled;
    if (header.payload_bytes > missing || (header.payload_bytes == 0 && missing > 0)) {
        return malformed("a record that its message has no room for");
    }
    return {};
}

void Link::note_filled(std::size_t count) {
    arriving_->filled += count;
    if (arriving_->filled == arriving_->total) {
        finish_message();
    }
}

std::span<std::uint8_t> Link::Arriving::next(std::size_t count) {
    if (into) {
        return into->subspan(filled, count);
    }
    bytes.resize(filled + count);
    return std::span(bytes).subspan(filled);
}

Result<void> Link::start_message(RecordHeader const& header) {
    arriving_.emplace(Arriving{.operation = header.operation, .total = header.message_bytes});
    expects_large_ = header.message_bytes >= background_bytes_min;
    bool const awaited = inbound_ != nullptr;
    if (awaited) {
        EXO_TRY(check(*inbound_, header.operation, header.message_bytes));
    }
    if (awaited && !inbound_->any_size) {
        arriving_->into = inbound_->into;
        return {};
    }
    arriving_->bytes.reserve(arriving_->total);
    inbox_bytes_ += arriving_->total;
    return {};
}

void Link::finish_message() {
    Arriving arrived = std::move(*arriving_);
    arriving_.reset();
    if (inbound_ == nullptr) {
        inbox_.push_back({.operation = arrived.operation, .bytes = std::move(arrived.bytes)});
        return;
    }
    if (inbound_->any_size) {
        inbox_bytes_ -= arrived.bytes.size();
        inbound_->message = std::move(arrived.bytes);
    }
    std::exchange(inbound_, nullptr)->done.store(true, std::memory_order_release);
}

bool Link::discard_until_end() {
    std::lock_guard const lock(read_mutex_);
    withdrawn_ = true;
    while (true) {
        auto const count = receive_some(socket_, buffer_);
        if (!count || (*count && **count == 0)) {
            return true;
        }
        if (!*count) {
            return false;
        }
    }
}

// ---- sending

Result<void> Link::write(Outbound& outbound, Patience patience) {
    std::unique_lock lock(write_mutex_);
    // A caller that waits anyway spares its bytes the copy; sealing copies in any case.
    window_ = plain_ && patience == Patience::waits_anyway ? 1 : outbox_bytes_max;
    auto result = write_locked(outbound);
    lock.unlock();
    writer_busy_ = false;
    return result;
}

Result<void> Link::write_locked(Outbound& outbound) {
    EXO_TRY(flush_locked());
    while (!outbound.done() && queued_bytes() < window_) {
        auto const rest = outbound.bytes.subspan(outbound.queued);
        auto const payload = rest.first(std::min(rest.size(), sealer_.payload_bytes_max()));
        RecordHeader const header{
            .kind = outbound.started ? RecordKind::more : RecordKind::message,
            .operation = outbound.operation,
            .message_bytes = static_cast<std::uint32_t>(outbound.bytes.size()),
        };
        outbound.started = true;
        outbound.queued += payload.size();
        if (plain_ && queued_bytes() == 0) {
            EXO_TRY(send_plain(header, payload));
            continue;
        }
        sealer_.seal(header, payload, outbox_);
        if (queued_bytes() >= flush_bytes) {
            EXO_TRY(flush_locked());
        }
    }
    sender_waits_ = !outbound.done();
    return flush_locked();
}

// Straight from the caller's memory; what the socket does not take is queued.
Result<void> Link::send_plain(RecordHeader const& header, BytesView payload) {
    auto const head = sealer_.plain_header(header, payload.size());
    auto const sent = send_some(socket_, head, payload);
    if (!sent) {
        return broken(sent.error().text());
    }
    append(outbox_, BytesView(head).subspan(std::min(*sent, head.size())));
    append(outbox_, payload.subspan(*sent - std::min(*sent, head.size())));
    queued_ = queued_bytes();
    return {};
}

Result<bool> Link::flush() {
    std::unique_lock lock(write_mutex_, std::try_to_lock);
    if (!lock) {
        writer_busy_ = true;
        if (!lock.try_lock()) {
            return false;
        }
    }
    writer_busy_ = false;
    EXO_TRY(flush_locked());
    return sender_waits_ && queued_bytes() <= window_ / 2;
}

Result<void> Link::beat() {
    std::unique_lock const lock(write_mutex_, std::try_to_lock);
    if (!lock || queued_bytes() > 0 || ended()) {
        return {};
    }
    sealer_.seal({.kind = RecordKind::beat}, {}, outbox_);
    return flush_locked();
}

Result<void> Link::write_last(RecordKind kind, std::string_view text) {
    std::lock_guard const lock(write_mutex_);
    sealer_.seal({.kind = kind}, as_bytes(text), outbox_);
    return flush_locked();
}

Result<void> Link::flush_locked() {
    while (queued_bytes() > 0) {
        auto const sent = send_some(socket_, BytesView(outbox_).subspan(sent_));
        if (!sent) {
            return broken(sent.error().text());
        }
        if (*sent == 0) {
            break;
        }
        sent_ += *sent;
    }
    if (sent_ == outbox_.size()) {
        outbox_.clear();
        sent_ = 0;
    } else if (sent_ > outbox_bytes_max / 2) {
        outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(sent_));
        sent_ = 0;
    }
    queued_ = queued_bytes();
    return {};
}

// ---- texts

Error Link::malformed(std::string const& what) const {
    return Error(Errc::protocol, fmt::format("{} sent {}", name(), what));
}

Error Link::unreadable(Error const& why) const {
    return malformed("bytes that cannot be read: " + why.text());
}

Error Link::broken(std::string const& how) const {
    return Error(
        Errc::unavailable, fmt::format("the connection with {} is broken: {}", name(), how)
    );
}

Error Link::ended_error() const {
    return Error(Errc::cancelled, fmt::format("{} ended in good order", name()));
}

} // namespace exo::collective
