// SPDX-License-Identifier: Apache-2.0
#include "net/ping/ping.hpp"

#include "base/assert.hpp"
#include "base/queue.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace exo::net::ping {

Bytes Responder::receive(BytesView bytes) {
    append(partial_, bytes);
    auto const whole = partial_.size() - partial_.size() % payload_bytes;
    auto const end = partial_.begin() + static_cast<std::ptrdiff_t>(whole);
    Bytes answer(partial_.begin(), end);
    partial_.erase(partial_.begin(), end);
    return answer;
}

Initiator::Initiator(Random random, TimePoint now, Timing timing)
    : random_(random)
    , timing_(timing)
    , next_ping_(now) {
    EXO_ASSERT(timing_.misses_max > 0);
}

void Initiator::on_time(TimePoint now, TimePoint heard) {
    if (now < deadline()) {
        return;
    }
    switch (state_) {
    case State::no_stream:
        state_ = State::opening;
        asked_ = now;
        actions_.emplace_back(OpenStream{});
        return;
    case State::idle:
        ask(now);
        return;
    case State::opening:
    case State::waiting: {
        auto const waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - asked_);
        actions_.emplace_back(ResetStream{});
        if (heard > asked_) {
            misses_ = 0;
            state_ = State::no_stream;
            next_ping_ = now;
            return;
        }
        miss(now, fmt::format("no answer to a ping for {} ms", waited.count()));
        return;
    }
    case State::stopped:
        return;
    }
}

void Initiator::on_stream_opened(TimePoint now) {
    if (state_ == State::opening) {
        ask(now);
    }
}

void Initiator::ask(TimePoint now) {
    for (auto& byte : payload_) {
        byte = static_cast<std::uint8_t>(random_.next());
    }
    state_ = State::waiting;
    asked_ = now;
    answer_.clear();
    actions_.emplace_back(Send{payload_});
}

void Initiator::on_bytes(BytesView bytes, TimePoint now) {
    if (state_ != State::waiting) {
        return; // Late, of a question that was given up, or unasked.
    }
    append(answer_, bytes.first(std::min(bytes.size(), payload_bytes - answer_.size())));
    if (answer_.size() < payload_bytes) {
        return;
    }
    if (!std::ranges::equal(answer_, payload_)) {
        actions_.emplace_back(ResetStream{});
        miss(now, "a ping was answered with other bytes");
        return;
    }
    state_ = State::idle;
    misses_ = 0;
    next_ping_ = asked_ + timing_.interval;
    actions_.emplace_back(Answered{now - asked_});
}

void Initiator::on_stream_failed(TimePoint now) {
    switch (state_) {
    case State::idle:
        state_ = State::no_stream; // Between two pings: js closes streams after 10 s.
        return;
    case State::opening:
        miss(now, "no stream for a ping");
        return;
    case State::waiting:
        miss(now, "the stream of a ping was closed");
        return;
    case State::no_stream:
    case State::stopped:
        return;
    }
}

void Initiator::on_refused() {
    state_ = State::stopped;
}

void Initiator::miss(TimePoint now, std::string reason) {
    state_ = State::no_stream;
    next_ping_ = std::max(now, asked_ + timing_.interval);
    if (++misses_ >= timing_.misses_max) {
        state_ = State::stopped;
        reason += fmt::format(", {} times in a row", misses_);
        actions_.emplace_back(Lost{std::move(reason)});
    }
}

std::optional<Action> Initiator::next_action() {
    return take_front(actions_);
}

TimePoint Initiator::deadline() const {
    switch (state_) {
    case State::no_stream:
    case State::idle:
        return next_ping_;
    case State::opening:
    case State::waiting:
        return asked_ + timing_.timeout;
    case State::stopped:
        return TimePoint::max();
    }
    return TimePoint::max(); // All states are above.
}

} // namespace exo::net::ping
