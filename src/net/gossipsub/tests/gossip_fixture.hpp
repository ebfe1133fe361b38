// SPDX-License-Identifier: Apache-2.0
//
// What the tests of gossipsub share: identities, RPCs written and read as protobufs.
#pragma once

#include "net/gossipsub/router.hpp"
#include "net/gossipsub/rpc.pb.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace exo::net::gossipsub {

constexpr TimePoint start{};

inline Bytes hex(std::string_view text) {
    return from_hex(text).value();
}

// As the peers of interop/: a seed of 32 equal bytes.
inline Identity identity(std::uint8_t number) {
    Seed seed;
    seed.fill(number);
    return Identity::from_seed(seed);
}

inline PeerId peer(std::uint8_t number) {
    return identity(number).peer_id();
}

inline Bytes bytes_of(pb::Rpc const& rpc) {
    auto const text = rpc.SerializeAsString();
    return {text.begin(), text.end()};
}

inline pb::Rpc rpc_of(Bytes const& bytes) {
    pb::Rpc rpc;
    EXPECT_TRUE(rpc.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    return rpc;
}

inline Bytes subscription(std::string const& topic, bool subscribe = true) {
    pb::Rpc rpc;
    auto& entry = *rpc.add_subscriptions();
    entry.set_subscribe(subscribe);
    entry.set_topic(topic);
    return bytes_of(rpc);
}

inline Bytes publication(Bytes const& encoded) {
    pb::Rpc rpc;
    rpc.add_publish(std::string(as_text(encoded)));
    return bytes_of(rpc);
}

inline nlohmann::json vectors(char const* file_name) {
    std::ifstream file(std::string(EXO_SOURCE_DIR "/testdata/libp2p/") + file_name);
    EXPECT_TRUE(file.is_open()) << file_name;
    return nlohmann::json::parse(file);
}

} // namespace exo::net::gossipsub
