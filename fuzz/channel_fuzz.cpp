// SPDX-License-Identifier: Apache-2.0
//
// A whole connection up to yamux's byte stream. An input says which side we are, whether there is
// a private network, and how deep it goes: at the first byte that the peer sends, or behind a
// handshake that succeeds, as what the peer then says about the muxer. Private network and Noise
// are put around it here; no mutation would get through them. The keys are those of the recorded
// transcript, which the corpus holds.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/host/channel.hpp"

namespace exo::net {
namespace {

struct Party {
    Identity identity;
    ChannelSecrets secrets;
};

Party party(std::uint8_t identity_fill, std::uint8_t static_fill, std::uint8_t ephemeral_fill) {
    Seed seed;
    seed.fill(identity_fill);
    Party result{.identity = Identity::from_seed(seed), .secrets = {}};
    result.secrets.nonce.fill(identity_fill);
    result.secrets.noise.static_key.fill(static_fill);
    result.secrets.noise.ephemeral_key.fill(ephemeral_fill);
    return result;
}

Party const& party_of(Direction direction) {
    static auto const dialer = party(0x01, 0x11, 0x12);
    static auto const listener = party(0x02, 0x21, 0x22);
    return direction == Direction::outbound ? dialer : listener;
}

std::optional<Psk> psk_if(bool is_private) {
    return is_private ? std::optional(psk_of_namespace("test")) : std::nullopt;
}

Channel make_channel(Direction direction, bool is_private) {
    auto const& own = party_of(direction);
    return {direction, psk_if(is_private), own.identity, own.secrets, std::nullopt};
}

// The other end up to Noise, which always does the right thing.
class Peer {
public:
    Peer(Direction direction, bool is_private)
        : party_(party_of(direction))
        , handshake_(
              direction == Direction::outbound ? noise::Side::initiator : noise::Side::responder,
              party_.identity,
              party_.secrets.noise,
              std::nullopt
          ) {
        if (auto const psk = psk_if(is_private)) {
            pnet_.emplace(*psk, party_.secrets.nonce);
            append(output_, pnet_->hello());
        }
    }

    // Private network only.
    [[nodiscard]] Bytes send_raw(BytesView bytes) {
        Bytes raw(bytes.begin(), bytes.end());
        if (pnet_) {
            pnet_->encrypt(raw);
        }
        auto result = std::exchange(output_, {});
        append(result, raw);
        return result;
    }

    // REQUIRES: agree_with() has returned.
    [[nodiscard]] Bytes send_encrypted(BytesView bytes) {
        Bytes encrypted;
        transport_->encrypt(bytes, encrypted);
        return send_raw(encrypted);
    }

    void agree_with(Channel& channel) {
        // Both sides say the same: a lazy dialer proposes what a listener repeats.
        static auto const agreement =
            multistream::Dialer({security_protocol}, multistream::Mode::wait).take_output();
        auto sent = agreement;
        std::size_t to_skip = agreement.size();
        while (true) {
            append(sent, handshake_.take_output());
            auto const done = handshake_.done();
            auto raw = send_raw(std::exchange(sent, {}));
            EXO_ASSERT(channel.receive(raw).has_value());
            if (done) {
                break;
            }
            auto bytes = channel.take_output();
            auto plain = pnet_ ? pnet_->decrypt(bytes) : BytesView(bytes);
            auto const skipped = std::min(to_skip, plain.size());
            to_skip -= skipped;
            EXO_ASSERT(handshake_.receive(plain.subspan(skipped)).has_value());
        }
        transport_.emplace(handshake_.transport());
    }

private:
    Party const& party_;
    std::optional<pnet::Session> pnet_;
    noise::Handshake handshake_;
    std::optional<noise::Transport> transport_;
    Bytes output_;
};

Direction opposite(Direction direction) {
    return direction == Direction::outbound ? Direction::inbound : Direction::outbound;
}

// The same bytes at once and in pieces: the same end, and the same stream for yamux.
void run_from_first_byte(Direction direction, bool is_private, fuzz::Pieces const& pieces) {
    auto whole = make_channel(direction, is_private);
    auto cut = make_channel(direction, is_private);
    auto bytes = Peer(opposite(direction), is_private).send_raw(pieces.bytes);
    bool cut_is_fine = true;
    fuzz::Pieces same = pieces;
    auto copy = bytes;
    same.bytes = copy;
    same.each([&](BytesView piece) {
        Bytes writable(piece.begin(), piece.end());
        cut_is_fine = cut.receive(writable).has_value();
        return cut_is_fine;
    });
    bool const whole_is_fine = whole.receive(bytes).has_value();
    EXO_ASSERT(whole_is_fine == cut_is_fine);
    if (whole_is_fine) {
        EXO_ASSERT(whole.ready() == cut.ready());
        EXO_ASSERT(whole.take_plain() == cut.take_plain());
    }
}

// What a negotiator leaves behind its agreement, had it all bytes at once; none when it refuses.
std::optional<Bytes> behind_agreement(auto negotiator, BytesView bytes) {
    if (!negotiator.receive(bytes)) {
        return std::nullopt;
    }
    return negotiator.confirmed() ? negotiator.take_rest() : Bytes{};
}

std::optional<Bytes> expected_plain(Direction direction, BytesView bytes) {
    using namespace multistream;
    return direction == Direction::outbound
               ? behind_agreement(Dialer({muxer_protocol}, Mode::lazy), bytes)
               : behind_agreement(Listener({muxer_protocol}), bytes);
}

void run_behind_noise(Direction direction, bool is_private, fuzz::Pieces const& pieces) {
    auto channel = make_channel(direction, is_private);
    Peer peer(opposite(direction), is_private);
    peer.agree_with(channel);
    bool is_fine = true;
    pieces.each([&](BytesView piece) {
        auto raw = peer.send_encrypted(piece);
        is_fine = channel.receive(raw).has_value();
        return is_fine;
    });
    auto const expected = expected_plain(direction, pieces.bytes);
    EXO_ASSERT(is_fine == expected.has_value());
    if (is_fine) {
        EXO_ASSERT(channel.take_plain() == *expected);
    }
}

} // namespace
} // namespace exo::net

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::net;
    if (size == 0) {
        return 0;
    }
    auto const direction = data[0] & 1 ? Direction::inbound : Direction::outbound;
    bool const is_private = (data[0] & 2) != 0;
    exo::fuzz::Pieces const pieces(exo::BytesView(data, size).subspan(1));
    if (data[0] & 4) {
        run_behind_noise(direction, is_private, pieces);
    } else {
        run_from_first_byte(direction, is_private, pieces);
    }
    return 0;
}
