// SPDX-License-Identifier: Apache-2.0
#include "net/identify/message.hpp"

#include "base/assert.hpp"
#include "net/identify/identify.pb.h"

#include <fmt/core.h>

#include <utility>

namespace exo::net::identify {
namespace {

std::string string_of(BytesView bytes) {
    return std::string(as_text(bytes));
}

std::optional<Multiaddr> address_of(std::string const& bytes) {
    auto const address = Multiaddr::from_bytes(as_bytes(bytes));
    return address ? std::optional(*address) : std::nullopt;
}

} // namespace

Bytes encode(Message const& message) {
    pb::Identify out;
    if (message.public_key) {
        out.set_public_key(string_of(to_protobuf(*message.public_key)));
    }
    for (auto const& name : message.protocols) {
        out.add_protocols(name);
    }
    if (message.observed) {
        out.set_observed_address(string_of(message.observed->bytes()));
    }
    out.set_protocol_version(message.protocol_version);
    out.set_agent_version(message.agent_version);
    EXO_ASSERT(out.ByteSizeLong() <= message_sent_bytes_max);
    for (auto const& address : message.listen) {
        out.add_listen_addresses(string_of(address.bytes()));
        if (out.ByteSizeLong() > message_sent_bytes_max) {
            out.mutable_listen_addresses()->RemoveLast();
            break;
        }
    }
    auto const text = out.SerializeAsString();
    return {text.begin(), text.end()};
}

Result<Message> decode(BytesView bytes, Limits const& limits) {
    if (bytes.size() > limits.message_bytes_max) {
        return Error(
            Errc::limit,
            fmt::format(
                "identify: {} bytes; {} is the limit", bytes.size(), limits.message_bytes_max
            )
        );
    }
    pb::Identify in;
    if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        return Error(
            Errc::protocol, fmt::format("identify: {} bytes are no message", bytes.size())
        );
    }
    auto const entries = in.listen_addresses_size() + in.protocols_size();
    if (static_cast<std::size_t>(entries) > limits.entries_max) {
        return Error(
            Errc::limit,
            fmt::format(
                "identify: {} addresses and protocols; {} is the limit", entries, limits.entries_max
            )
        );
    }
    Message message;
    if (auto const key = public_key_from_protobuf(as_bytes(in.public_key()))) {
        message.public_key = *key;
    }
    for (auto const& listen : in.listen_addresses()) {
        if (auto const address = address_of(listen)) {
            message.listen.push_back(*address);
        }
    }
    message.protocols.assign(in.protocols().begin(), in.protocols().end());
    if (in.has_observed_address()) {
        message.observed = address_of(in.observed_address());
    }
    message.protocol_version = in.protocol_version();
    message.agent_version = in.agent_version();
    return message;
}

void update(Message& known, Message push) {
    auto const replace_text = [](std::string& text, std::string& by) {
        if (!by.empty()) {
            text = std::move(by);
        }
    };
    if (push.public_key) {
        known.public_key = push.public_key;
    }
    if (!push.listen.empty()) {
        known.listen = std::move(push.listen);
    }
    if (!push.protocols.empty()) {
        known.protocols = std::move(push.protocols);
    }
    if (push.observed) {
        known.observed = std::move(push.observed);
    }
    replace_text(known.protocol_version, push.protocol_version);
    replace_text(known.agent_version, push.agent_version);
}

} // namespace exo::net::identify
