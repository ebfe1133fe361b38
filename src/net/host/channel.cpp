// SPDX-License-Identifier: Apache-2.0
#include "net/host/channel.hpp"

#include "base/assert.hpp"

namespace exo::net {
namespace {

bool is_confirmed(auto const& negotiator) {
    return std::visit([](auto const& side) { return side.confirmed(); }, negotiator);
}

} // namespace

Channel::Channel(
    Direction direction,
    std::optional<Psk> const& psk,
    Identity const& identity,
    ChannelSecrets const& secrets,
    std::optional<PeerId> expected
)
    : direction_(direction)
    , security_(negotiator(security_protocol))
    , handshake_(std::make_unique<noise::Handshake>(
          direction == Direction::outbound ? noise::Side::initiator : noise::Side::responder,
          identity,
          secrets.noise,
          std::move(expected)
      )) {
    if (psk) {
        pnet_.emplace(*psk, secrets.nonce);
        append(output_, pnet_->hello());
    }
    if (auto* const dialer = std::get_if<multistream::Dialer>(&security_)) {
        push_raw(dialer->take_output());
    }
    push_handshake_output(); // Lazy: the first message follows the proposal at once.
}

Channel::Negotiator Channel::negotiator(char const* protocol) const {
    std::vector<std::string> protocols{protocol};
    if (direction_ == Direction::outbound) {
        return multistream::Dialer(std::move(protocols), multistream::Mode::lazy);
    }
    return multistream::Listener(std::move(protocols));
}

bool Channel::ready() const {
    return transport_ && (direction_ == Direction::outbound || is_confirmed(*muxer_));
}

Result<void> Channel::receive(std::span<std::uint8_t> bytes) {
    auto const plain = pnet_ ? pnet_->decrypt(bytes) : BytesView(bytes);
    if (plain.empty()) {
        return {};
    }
    return is_confirmed(security_) ? receive_noise(plain) : receive_security(plain);
}

Result<void> Channel::receive_security(BytesView bytes) {
    auto const rest = negotiate(security_, bytes);
    if (!rest) {
        return rest.error();
    }
    if (auto* const listener = std::get_if<multistream::Listener>(&security_)) {
        push_raw(listener->take_output());
    }
    return rest->empty() ? Result<void>() : receive_noise(*rest);
}

Result<void> Channel::receive_noise(BytesView bytes) {
    if (transport_) {
        return receive_encrypted(bytes);
    }
    EXO_TRY(handshake_->receive(bytes));
    push_handshake_output();
    if (!handshake_->done()) {
        return {};
    }
    auto const rest = handshake_->take_rest();
    finish_noise();
    return rest.empty() ? Result<void>() : receive_encrypted(rest);
}

void Channel::finish_noise() {
    peer_ = handshake_->peer();
    transport_.emplace(handshake_->transport());
    handshake_.reset();
    muxer_.emplace(negotiator(muxer_protocol));
    if (auto* const dialer = std::get_if<multistream::Dialer>(&*muxer_)) {
        send(dialer->take_output());
    }
}

Result<void> Channel::receive_encrypted(BytesView bytes) {
    if (is_confirmed(*muxer_)) {
        return transport_->decrypt(bytes, plain_);
    }
    Bytes plain;
    EXO_TRY(transport_->decrypt(bytes, plain));
    return plain.empty() ? Result<void>() : receive_muxer(plain);
}

Result<void> Channel::receive_muxer(BytesView bytes) {
    auto const rest = negotiate(*muxer_, bytes);
    if (!rest) {
        return rest.error();
    }
    if (auto* const listener = std::get_if<multistream::Listener>(&*muxer_)) {
        send(listener->take_output());
    }
    append(plain_, *rest);
    return {};
}

Result<Bytes> Channel::negotiate(Negotiator& negotiator, BytesView bytes) {
    return std::visit(
        [&](auto& side) -> Result<Bytes> {
            if (auto const result = side.receive(bytes); !result) {
                return result.error();
            }
            return side.confirmed() ? side.take_rest() : Bytes{};
        },
        negotiator
    );
}

void Channel::send(BytesView plain) {
    EXO_ASSERT(transport_.has_value());
    auto const begin = output_.size();
    transport_->encrypt(plain, output_);
    if (pnet_) {
        pnet_->encrypt(std::span(output_).subspan(begin));
    }
}

void Channel::push_handshake_output() {
    push_raw(handshake_->take_output());
}

void Channel::push_raw(Bytes bytes) {
    if (pnet_) {
        pnet_->encrypt(bytes);
    }
    append(output_, bytes);
}

} // namespace exo::net
