// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a peer in pieces against the same bytes at once: the same streams and data, whatever
// they are. An application that echoes drives the sending side.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/yamux/session.hpp"

#include <map>
#include <set>

namespace exo::net::yamux {
namespace {

constexpr TimePoint now{};

struct Heard {
    std::map<StreamId, Bytes> data;
    std::size_t opened = 0;
    std::size_t ended = 0;
    bool operator==(Heard const&) const = default;
};

// Counts only: what the application does may differ with the cuts.
Heard listen(Session& session) {
    Heard heard;
    while (auto const event = session.next_event()) {
        if (auto const* data = std::get_if<DataReceived>(&*event)) {
            append(heard.data[data->stream], data->bytes);
        } else if (std::holds_alternative<StreamOpened>(*event)) {
            ++heard.opened;
        } else if (std::holds_alternative<StreamEnded>(*event)) {
            ++heard.ended;
        }
    }
    return heard;
}

// As the host's driver: what an application does, it does when all events have been taken, and
// never to a stream that has an ended one's id.
void echo(Session& session) {
    std::map<StreamId, Bytes> unread;
    std::set<StreamId> finished;
    auto const forget = [&](StreamId id) {
        unread.erase(id);
        finished.erase(id);
    };
    while (auto const event = session.next_event()) {
        if (auto const* data = std::get_if<DataReceived>(&*event)) {
            append(unread[data->stream], data->bytes);
        } else if (auto const* opened = std::get_if<StreamOpened>(&*event)) {
            forget(opened->stream);
        } else if (auto const* end = std::get_if<StreamEnded>(&*event)) {
            if (end->reset) {
                forget(end->stream);
            } else {
                finished.insert(end->stream);
            }
        }
    }
    for (auto const& [id, bytes] : unread) {
        session.release(id, bytes.size(), now);
        (void)session.send(id, bytes);
    }
    for (auto const id : finished) {
        session.close_write(id);
    }
    EXO_ASSERT(session.stream_count() <= Limits().streams_max);
    EXO_ASSERT(session.take_output().size() < 1024 * 1024);
    while (session.next_event()) {
    }
}

void check_cuts(Side side, fuzz::Pieces const& pieces) {
    Session whole(side, now);
    Session cut(side, now);
    bool const whole_is_fine = whole.receive(pieces.bytes, now).has_value();
    bool cut_is_fine = true;
    pieces.each([&](BytesView piece) {
        cut_is_fine = cut.receive(piece, now).has_value();
        return cut_is_fine;
    });
    EXO_ASSERT(whole_is_fine == cut_is_fine);
    EXO_ASSERT(listen(whole) == listen(cut));
    EXO_ASSERT(whole.take_output() == cut.take_output());
}

void check_echo(Side side, fuzz::Pieces const& pieces) {
    Session session(side, now);
    (void)session.open_stream();
    pieces.each([&](BytesView piece) {
        bool const is_fine = session.receive(piece, now).has_value();
        echo(session);
        return is_fine;
    });
}

} // namespace
} // namespace exo::net::yamux

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::net::yamux;
    exo::fuzz::Pieces const pieces(exo::BytesView(data, size));
    for (auto const side : {Side::dialer, Side::listener}) {
        check_cuts(side, pieces);
        check_echo(side, pieces);
    }
    return 0;
}
