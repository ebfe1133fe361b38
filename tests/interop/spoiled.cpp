// SPDX-License-Identifier: Apache-2.0
#include "spoiled.hpp"

#include "net/gossipsub/message.hpp"
#include "net/gossipsub/rpc.pb.h"

#include <functional>
#include <utility>

namespace exo::net {
namespace {

using gossipsub::pb::Message;

std::string other_public_key() {
    auto const bytes = to_protobuf(Identity::generate().public_key());
    return {bytes.begin(), bytes.end()};
}

std::string other_peer_id() {
    auto const bytes = Identity::generate().peer_id().bytes();
    return {bytes.begin(), bytes.end()};
}

struct Fault {
    char const* name;
    std::function<void(Message&)> make;
};

std::vector<Fault> faults() {
    return {
        {"signature", [](Message& message) { message.mutable_signature()->front() ^= 1; }},
        {"data", [](Message& message) { message.mutable_data()->push_back('!'); }},
        {"sequence number", [](Message& message) { message.mutable_seqno()->back() ^= 1; }},
        {"author of another", [](Message& message) { message.set_from(other_peer_id()); }},
        {"key of another", [](Message& message) { message.set_key(other_public_key()); }},
        {"no signature", [](Message& message) { message.clear_signature(); }},
        {"no author", [](Message& message) { message.clear_from(); }},
    };
}

Bytes rpc_of(std::string const& message) {
    gossipsub::pb::Rpc rpc;
    rpc.add_publish(message);
    auto const text = rpc.SerializeAsString();
    return {text.begin(), text.end()};
}

} // namespace

std::vector<Bytes>
spoiled_rpcs(Identity const& identity, std::string const& topic, std::uint64_t sequence_number) {
    // Two apart: none may become the number of another by its fault.
    auto const signed_message = [&](std::string const& text) {
        sequence_number += 2;
        return *gossipsub::sign_message(identity, sequence_number, topic, as_bytes(text)).encoded;
    };
    std::vector<Bytes> result;
    for (auto const& fault : faults()) {
        auto const good = signed_message(spoiled_text + (": " + std::string(fault.name)));
        Message message;
        message.ParseFromArray(good.data(), static_cast<int>(good.size()));
        fault.make(message);
        result.push_back(rpc_of(message.SerializeAsString()));
    }
    auto const good = signed_message(good_text);
    result.push_back(rpc_of({good.begin(), good.end()}));
    return result;
}

} // namespace exo::net
