// SPDX-License-Identifier: Apache-2.0
#include "net/yamux/session.hpp"

#include "base/assert.hpp"
#include "base/queue.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace exo::net::yamux {
namespace {

// As rust: a window that is half read in two round trips is too small, or nearly so.
constexpr int growth_round_trips = 2;

// However near the peer is, its threads and ours have other work and answer about so late.
constexpr Duration round_trip_min = 1ms;

StreamId stream_of(Event const& event) {
    return std::visit(
        [](auto const& it) {
            if constexpr (requires { it.stream; }) {
                return it.stream;
            } else {
                return StreamId(0);
            }
        },
        event
    );
}

} // namespace

Session::Session(Side side, TimePoint now, Limits limits)
    : side_(side)
    , limits_(limits)
    , next_id_(side == Side::dialer ? 1 : 2)
    , next_ping_(now) {
    EXO_ASSERT(limits_.frame_bytes_max > 0);
    EXO_ASSERT(limits_.output_share_max > 0);
    push_ping(now);
}

Result<void> Session::receive(BytesView bytes, TimePoint now) {
    if (failed_) {
        return *failed_;
    }
    while (!bytes.empty()) {
        EXO_TRY(receive_part(bytes, now));
    }
    return {};
}

// Takes as much as belongs to one header or body.
Result<void> Session::receive_part(BytesView& bytes, TimePoint now) {
    if (body_missing_ > 0) {
        auto const part = bytes.first(std::min<std::size_t>(bytes.size(), body_missing_));
        bytes = bytes.subspan(part.size());
        take_body(part);
        return {};
    }
    auto const part = bytes.first(std::min(bytes.size(), header_bytes - header_filled_));
    std::ranges::copy(part, std::span(header_).subspan(header_filled_).begin());
    header_filled_ += part.size();
    bytes = bytes.subspan(part.size());
    if (header_filled_ < header_bytes) {
        return {};
    }
    header_filled_ = 0;
    auto const header = parse_header(header_);
    if (!header) {
        return fail(Errc::protocol, header.error().text());
    }
    EXO_TRY(on_header(*header, now));
    if (output_.size() > limits_.output_bytes_max + limits_.control_bytes_max) {
        return fail(
            Errc::limit,
            fmt::format("yamux: the peer asks but does not read; {} bytes wait", output_.size())
        );
    }
    return {};
}

void Session::take_body(BytesView part) {
    body_missing_ -= static_cast<std::uint32_t>(part.size());
    auto const found = body_stream_ ? streams_.find(*body_stream_) : streams_.end();
    if (found != streams_.end() && found->second.abandoned) {
        refuse_data(found);
    } else if (found != streams_.end()) {
        events_.emplace_back(DataReceived{*body_stream_, {part.begin(), part.end()}});
    }
    if (body_missing_ == 0) {
        auto const stream = std::exchange(body_stream_, std::nullopt);
        if (std::exchange(fin_after_body_, false) && stream) {
            on_fin(*stream);
        }
    }
}

Result<void> Session::on_header(Header const& header, TimePoint now) {
    switch (header.type) {
    case FrameType::data:
    case FrameType::window_update:
        return on_stream_frame(header, now);
    case FrameType::ping:
        return on_ping(header, now);
    case FrameType::go_away:
        if (!std::exchange(peer_left_, true)) {
            events_.emplace_back(GoAwayReceived{header.length});
        }
        return {};
    }
    return {}; // parse_header() lets no other type through.
}

Result<void> Session::on_stream_frame(Header const& header, TimePoint now) {
    // What no stream takes is skipped without being stored, but it still had to fit a window.
    bool const is_data = header.type == FrameType::data;
    if (is_data && header.length > largest_window_) {
        return fail(
            Errc::protocol,
            fmt::format(
                "yamux: a frame of {} bytes; {} is the window", header.length, largest_window_
            )
        );
    }
    body_missing_ = is_data ? header.length : 0;
    if (header.stream == 0) {
        return fail(Errc::protocol, "yamux: data or credit for the stream 0");
    }
    if (header.has(flag::syn)) {
        EXO_TRY(on_syn(header, now));
    }
    auto const stream = streams_.find(StreamId(header.stream));
    if (stream == streams_.end()) {
        return {}; // It crossed with our end of the stream, or was refused.
    }
    if (header.has(flag::ack) && is_ours(header.stream) && !stream->second.acknowledged) {
        stream->second.acknowledged = true;
        EXO_ASSERT(unacknowledged_ > 0);
        --unacknowledged_;
    }
    if (header.has(flag::rst)) {
        on_reset(stream);
        return {};
    }
    return is_data ? on_data(stream, header) : on_window_update(stream, header);
}

Result<void> Session::on_syn(Header const& header, TimePoint now) {
    StreamId const id(header.stream);
    if (is_ours(header.stream)) {
        return fail(
            Errc::protocol,
            fmt::format("yamux: the peer opened stream {}, an id of our side", header.stream)
        );
    }
    if (streams_.contains(id)) {
        return fail(
            Errc::protocol, fmt::format("yamux: the peer opened stream {} twice", header.stream)
        );
    }
    if (header.has(flag::rst)) {
        return {};
    }
    if (left_ || !has_room()) {
        push({.type = FrameType::data, .flags = flag::rst, .stream = header.stream});
        return {};
    }
    streams_[id].credited = now;
    // At once and alone: rust opens at most 256 streams ahead of our acknowledgements.
    push({.type = FrameType::window_update, .flags = flag::ack, .stream = header.stream});
    events_.emplace_back(StreamOpened{id});
    return {};
}

Result<void> Session::on_data(Streams::iterator stream, Header const& header) {
    auto& [id, state] = *stream;
    if (header.length > state.receive_window) {
        return fail(
            Errc::protocol,
            fmt::format(
                "yamux: {} bytes on stream {}, {} were granted",
                header.length,
                id.value(),
                state.receive_window
            )
        );
    }
    if ((state.read_ended || state.abandoned) && header.length > 0) {
        refuse_data(stream);
        return {};
    }
    state.receive_window -= header.length;
    if (header.length == 0) {
        if (header.has(flag::fin)) {
            on_fin(id);
        }
        return {};
    }
    body_stream_ = id;
    fin_after_body_ = header.has(flag::fin);
    return {};
}

Result<void> Session::on_window_update(Streams::iterator stream, Header const& header) {
    auto& [id, state] = *stream;
    state.send_window += header.length;
    if (state.send_window > std::numeric_limits<std::uint32_t>::max()) {
        return fail(
            Errc::protocol,
            fmt::format("yamux: {} bytes of credit on stream {}", state.send_window, id.value())
        );
    }
    note_writable(id, state);
    if (header.has(flag::fin)) {
        on_fin(id);
    }
    return {};
}

Result<void> Session::on_ping(Header const& header, TimePoint now) {
    if (!header.has(flag::ack)) {
        push({.type = FrameType::ping, .flags = flag::ack, .length = header.length});
        return {};
    }
    if (!ping_ || ping_->value != header.length) {
        return fail(
            Errc::protocol, fmt::format("yamux: answer to ping {}, not sent", header.length)
        );
    }
    auto const round_trip = now - ping_->sent;
    round_trip_ = std::min(round_trip_.value_or(round_trip), round_trip);
    ping_.reset();
    return {};
}

// Behind the end (this stream cannot be trusted, the others can), or nobody reads it.
void Session::refuse_data(Streams::iterator stream) {
    push({.type = FrameType::data, .flags = flag::rst, .stream = stream->first.value()});
    on_reset(stream);
}

void Session::on_reset(Streams::iterator stream) {
    auto const id = stream->first;
    bool const is_heard = !stream->second.abandoned;
    erase(stream);
    if (is_heard) {
        events_.emplace_back(StreamEnded{id, true});
    }
}

void Session::on_fin(StreamId id) {
    auto const stream = streams_.find(id);
    if (stream == streams_.end() || std::exchange(stream->second.read_ended, true)) {
        return;
    }
    if (!stream->second.abandoned) {
        events_.emplace_back(StreamEnded{id, false});
    }
    forget_if_ended(stream);
}

std::optional<Event> Session::next_event() {
    return take_front(events_);
}

Result<StreamId> Session::open_stream() {
    if (peer_left_ || left_ || failed_) {
        return Error(Errc::unavailable, "yamux: the connection is closing; no new streams");
    }
    if (next_id_ > std::numeric_limits<std::uint32_t>::max()) {
        return Error(Errc::unavailable, "yamux: all stream ids are used; connect again");
    }
    if (unacknowledged_ >= limits_.unacknowledged_max) {
        return Error(
            Errc::unavailable,
            fmt::format("yamux: the peer has not acknowledged {} streams yet", unacknowledged_)
        );
    }
    if (!has_room()) {
        return Error(
            Errc::limit, fmt::format("yamux: {} streams are open already", streams_.size())
        );
    }
    auto const number = static_cast<std::uint32_t>(next_id_);
    next_id_ += 2;
    ++unacknowledged_;
    streams_[StreamId(number)] = {};
    push({.type = FrameType::window_update, .flags = flag::syn, .stream = number});
    return StreamId(number);
}

std::size_t Session::send(StreamId id, BytesView bytes) {
    auto const found = streams_.find(id);
    if (found == streams_.end() || found->second.write_ended || failed_) {
        return 0;
    }
    auto& stream = found->second;
    auto const taken = std::min(bytes.size(), room(stream));
    for (auto rest = bytes.first(taken); !rest.empty();) {
        auto const body = rest.first(std::min(rest.size(), limits_.frame_bytes_max));
        push({.stream = id.value(), .length = static_cast<std::uint32_t>(body.size())});
        append(output_, body);
        rest = rest.subspan(body.size());
    }
    stream.send_window -= taken;
    stream.queued_bytes += taken;
    // Whoever got something queues up behind those who got nothing.
    if (taken > 0 && std::exchange(stream.waiting, false)) {
        std::erase(waiting_, id);
    }
    if (taken < bytes.size() && !std::exchange(stream.waiting, true)) {
        waiting_.push_back(id);
    }
    return taken;
}

void Session::release(StreamId id, std::size_t bytes_count, TimePoint now) {
    auto const found = streams_.find(id);
    if (found == streams_.end()) {
        return;
    }
    auto& stream = found->second;
    EXO_ASSERT(bytes_count <= stream.unread_bytes());
    stream.released_bytes += static_cast<std::uint32_t>(bytes_count);
    if (stream.read_ended) {
        forget_if_ended(found);
        return;
    }
    if (stream.released_bytes < stream.window / 2) {
        return; // Half a window at a time, as rust and go do: few frames, and no stall.
    }
    auto const grown = growth(stream, now);
    auto const credit = std::exchange(stream.released_bytes, 0U) + grown;
    stream.window += grown;
    stream.receive_window += credit;
    stream.credited = now;
    grown_bytes_ += grown;
    largest_window_ = std::max(largest_window_, stream.window);
    push({.type = FrameType::window_update, .stream = id.value(), .length = credit});
}

// What the measured bandwidth wants on top of a window of which half has just been read.
std::uint32_t Session::growth(Stream const& stream, TimePoint now) const {
    if (!round_trip_ || !stream.credited) {
        return 0;
    }
    if (now - *stream.credited > growth_round_trips * std::max(*round_trip_, round_trip_min)) {
        return 0;
    }
    auto const left = [](std::uint32_t limit, std::uint32_t used) {
        return limit > used ? limit - used : 0;
    };
    return std::min(
        {stream.window,
         left(limits_.window_bytes_max, stream.window),
         left(limits_.growth_bytes_max, grown_bytes_)}
    );
}

void Session::close_write(StreamId id) {
    auto const found = streams_.find(id);
    if (found == streams_.end() || std::exchange(found->second.write_ended, true)) {
        return;
    }
    if (std::exchange(found->second.waiting, false)) {
        std::erase(waiting_, id);
    }
    push({.type = FrameType::data, .flags = flag::fin, .stream = id.value()});
    forget_if_ended(found);
}

void Session::abandon(StreamId id) {
    std::erase_if(events_, [&](Event const& event) { return stream_of(event) == id; });
    auto const found = streams_.find(id);
    if (found == streams_.end()) {
        return;
    }
    auto& stream = found->second;
    if (!stream.write_ended) {
        reset(id);
        return;
    }
    stream.abandoned = true;
    stream.released_bytes += stream.unread_bytes();
    forget_if_ended(found);
}

void Session::reset(StreamId id) {
    std::erase_if(events_, [&](Event const& event) { return stream_of(event) == id; });
    auto const found = streams_.find(id);
    if (found == streams_.end()) {
        return;
    }
    push({.type = FrameType::data, .flags = flag::rst, .stream = id.value()});
    erase(found);
}

void Session::go_away(std::uint32_t code) {
    if (!std::exchange(left_, true)) {
        push({.type = FrameType::go_away, .length = code});
    }
}

Bytes Session::take_output() {
    for (auto& [id, stream] : streams_) {
        stream.queued_bytes = 0;
    }
    auto output = std::exchange(output_, {});
    for (auto const id : waiting_) {
        note_writable(id, streams_.at(id));
    }
    return output;
}

TimePoint Session::deadline() const {
    if (failed_) {
        return TimePoint::max();
    }
    return ping_ ? ping_->sent + limits_.ping_timeout : next_ping_;
}

Result<void> Session::on_time(TimePoint now) {
    if (failed_) {
        return *failed_;
    }
    if (ping_ && now >= ping_->sent + limits_.ping_timeout) {
        using Seconds = std::chrono::seconds;
        auto const waited = std::chrono::duration_cast<Seconds>(now - ping_->sent).count();
        return fail(
            Errc::timed_out, fmt::format("yamux: the peer has not answered for {} s", waited)
        );
    }
    if (!ping_ && now >= next_ping_) {
        push_ping(now);
    }
    return {};
}

void Session::push(Header const& header) {
    append_header(output_, header);
}

void Session::push_ping(TimePoint now) {
    EXO_ASSERT(!ping_);
    ping_ = Ping{.value = next_ping_value_++, .sent = now};
    next_ping_ = now + limits_.ping_interval;
    push({.type = FrameType::ping, .flags = flag::syn, .length = ping_->value});
}

void Session::forget_if_ended(Streams::iterator stream) {
    auto const& state = stream->second;
    if (state.read_ended && state.write_ended && state.unread_bytes() == 0) {
        erase(stream);
    }
}

// At the limit a stream that was abandoned here makes room: its peer had time to end it.
bool Session::has_room() {
    if (streams_.size() < limits_.streams_max) {
        return true;
    }
    auto const abandoned =
        std::ranges::find_if(streams_, [](auto const& entry) { return entry.second.abandoned; });
    if (abandoned == streams_.end()) {
        return false;
    }
    reset(abandoned->first);
    return true;
}

void Session::erase(Streams::iterator stream) {
    auto const& [id, state] = *stream;
    if (is_ours(id.value()) && !state.acknowledged) {
        EXO_ASSERT(unacknowledged_ > 0);
        --unacknowledged_;
    }
    if (state.waiting) {
        std::erase(waiting_, id);
    }
    grown_bytes_ -= state.window - initial_window_bytes;
    streams_.erase(stream);
}

void Session::note_writable(StreamId id, Stream const& stream) {
    if (stream.waiting && room(stream) > 0) {
        events_.emplace_back(StreamWritable{id});
    }
}

// Remembers and returns the final error, and tells the peer.
Error Session::fail(Errc code, std::string text) {
    EXO_ASSERT(!failed_);
    go_away(code == Errc::protocol ? go_away_protocol_error : go_away_internal_error);
    failed_.emplace(code, std::move(text));
    return *failed_;
}

std::uint64_t Session::unread_bytes() const {
    std::uint64_t sum = 0;
    for (auto const& [id, stream] : streams_) {
        sum += stream.unread_bytes();
    }
    return sum;
}

bool Session::is_ours(std::uint32_t id) const {
    bool const is_odd = id % 2 == 1;
    return is_odd == (side_ == Side::dialer);
}

std::size_t Session::room(Stream const& stream) const {
    auto const left = [](std::size_t limit, std::size_t used) {
        return limit > used ? limit - used : 0;
    };
    auto const local = std::min(
        left(limits_.output_bytes_max, output_.size()),
        left(limits_.output_share_max, stream.queued_bytes)
    );
    return static_cast<std::size_t>(std::min<std::uint64_t>(stream.send_window, local));
}

} // namespace exo::net::yamux
