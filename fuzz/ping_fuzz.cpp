// SPDX-License-Identifier: Apache-2.0
//
// Both roles of ping. As the one that asks: each byte of an input is a turn, a piece of the right
// answer, a byte of a wrong one, a lost stream, or time that goes by.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/ping/ping.hpp"

namespace exo::net::ping {
namespace {

void check_responder(fuzz::Pieces const& pieces) {
    Responder whole;
    Responder cut;
    auto const expected = whole.receive(pieces.bytes);
    Bytes answered;
    pieces.each([&](BytesView piece) {
        append(answered, cut.receive(piece));
        return true;
    });
    EXO_ASSERT(answered == expected);
    EXO_ASSERT(std::ranges::equal(answered, pieces.bytes.first(answered.size())));
    EXO_ASSERT(pieces.bytes.size() - answered.size() < payload_bytes);
}

// The driver's part: it opens what it is told to, and remembers what was asked.
class Driver {
public:
    void turn(std::uint8_t what) {
        switch (what % 8) {
        case 0:
            now_ += std::chrono::milliseconds(what * 20);
            break;
        case 1:
            initiator_.on_stream_opened(now_);
            break;
        case 2:
            initiator_.on_stream_failed(now_);
            break;
        case 3:
            answer(1); // A wrong one, but for luck.
            heard_ = now_;
            break;
        default:
            answer(what % payload_bytes + 1);
        }
        initiator_.on_time(now_, heard_);
        carry_out();
    }

    void refuse() {
        initiator_.on_refused();
        EXO_ASSERT(initiator_.deadline() == TimePoint::max());
    }

private:
    void answer(std::size_t size) {
        auto const rest = BytesView(asked_).subspan(answered_);
        auto const piece = rest.first(std::min(size, rest.size()));
        initiator_.on_bytes(size == 1 ? BytesView(asked_).first(1) : piece, now_);
        answered_ += piece.size();
    }

    void carry_out() {
        while (auto const action = initiator_.next_action()) {
            EXO_ASSERT(!lost_); // Nothing comes after it.
            if (auto const* send = std::get_if<Send>(&*action)) {
                asked_ = send->payload;
                answered_ = 0;
            } else if (auto const* answered = std::get_if<Answered>(&*action)) {
                EXO_ASSERT(answered->round_trip >= Duration(0));
            }
            lost_ = std::holds_alternative<Lost>(*action);
        }
        EXO_ASSERT(!lost_ || initiator_.deadline() == TimePoint::max());
    }

    TimePoint now_{};
    TimePoint heard_{};
    Initiator initiator_{Random(1), now_};
    Payload asked_{};
    std::size_t answered_ = 0;
    bool lost_ = false;
};

} // namespace
} // namespace exo::net::ping

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::net::ping;
    exo::fuzz::Pieces const pieces(exo::BytesView(data, size));
    check_responder(pieces);
    Driver driver;
    for (auto const what : pieces.bytes) {
        driver.turn(what);
    }
    driver.refuse();
    return 0;
}
