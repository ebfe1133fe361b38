// SPDX-License-Identifier: Apache-2.0
//
// An RPC of gossipsub as it was received (rpc.proto), read in place: a peer decides what is in it,
// so nothing is copied, and not more entries are listed than the limits say. Pure.
#pragma once

#include "base/bytes.hpp"
#include "net/gossipsub/limits.hpp"

#include <string_view>
#include <vector>

namespace exo::net::gossipsub {

// Views into the bytes that it was read from, which must outlive it.
struct ReceivedRpc {
    struct Subscription {
        std::string_view topic;
        bool subscribe = false;
    };

    struct IHave {
        std::string_view topic;
        std::vector<std::string_view> ids;
    };

    struct Prune {
        std::string_view topic;
        std::uint64_t backoff_seconds = 0; // 0: it says none.
    };

    std::vector<Subscription> subscriptions;
    std::vector<BytesView> messages; // Each is a protobuf Message, not looked into.
    std::vector<IHave> ihave;
    std::vector<std::string_view> iwant;
    std::vector<std::string_view> graft;
    std::vector<Prune> prune;
    std::vector<std::string_view> dont_want;
    bool is_cut = false; // There is more, which a limit has cut off.
};

// Fields may come in any order; unknown ones are skipped. Error: protocol, for what is no RPC.
[[nodiscard]] Result<ReceivedRpc> read_rpc(BytesView bytes, Limits const& limits);

} // namespace exo::net::gossipsub
