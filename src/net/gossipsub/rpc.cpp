// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/rpc.hpp"

#include "net/wire/protobuf.hpp"

namespace exo::net::gossipsub {
namespace {

// Field numbers of rpc.proto, by message.
enum RpcField : std::uint32_t { subscriptions = 1, publish = 2, control = 3 };

enum SubscriptionField : std::uint32_t { subscribe = 1, subscription_topic = 2 };

enum ControlField : std::uint32_t { ihave = 1, iwant = 2, graft = 3, prune = 4, dont_want = 5 };

enum IHaveField : std::uint32_t { ihave_topic = 1, ihave_ids = 2 };

enum PruneField : std::uint32_t { prune_topic = 1, prune_backoff = 3 };

constexpr std::uint32_t only_ids = 1;    // Of IWANT and IDONTWANT.
constexpr std::uint32_t graft_topic = 1; // Of GRAFT.

class RpcReader {
public:
    explicit RpcReader(Limits const& limits)
        : limits_(limits) {}

    Result<ReceivedRpc> read(BytesView bytes) {
        auto const result = for_each_field(bytes, [this](auto const& it) { return on_field(it); });
        if (!result && !rpc_.is_cut) {
            return result.error();
        }
        return std::move(rpc_);
    }

private:
    // Ends the reading, without being an error of the RPC.
    Result<void> cut() {
        rpc_.is_cut = true;
        return Error(Errc::limit, "an RPC of too many entries");
    }

    template <class Entry>
    Result<void> add(std::vector<Entry>& to, Entry entry) {
        if (++entries_ > limits_.rpc_entries_max) {
            return cut();
        }
        to.push_back(std::move(entry));
        return {};
    }

    Result<void> on_field(ProtobufField const& field) {
        if (field.is_bytes(subscriptions)) {
            return on_subscription(field.bytes);
        }
        if (field.is_bytes(publish)) {
            if (rpc_.messages.size() >= limits_.rpc_messages_max) {
                return cut();
            }
            return add(rpc_.messages, field.bytes);
        }
        if (field.is_bytes(control)) {
            return for_each_field(field.bytes, [this](auto const& it) { return on_control(it); });
        }
        return {};
    }

    Result<void> on_subscription(BytesView bytes) {
        ReceivedRpc::Subscription entry;
        EXO_TRY(for_each_field(bytes, [&](ProtobufField const& field) -> Result<void> {
            if (field.is_varint(subscribe)) {
                entry.subscribe = field.value != 0;
            } else if (field.is_bytes(subscription_topic)) {
                entry.topic = as_text(field.bytes);
            }
            return {};
        }));
        return add(rpc_.subscriptions, entry);
    }

    Result<void> on_control(ProtobufField const& field) {
        if (field.is_bytes(ihave)) {
            return on_ihave(field.bytes);
        }
        if (field.is_bytes(iwant)) {
            return on_ids(field.bytes, rpc_.iwant);
        }
        if (field.is_bytes(graft)) {
            return on_graft(field.bytes);
        }
        if (field.is_bytes(prune)) {
            return on_prune(field.bytes);
        }
        if (field.is_bytes(dont_want)) {
            return on_ids(field.bytes, rpc_.dont_want);
        }
        return {};
    }

    Result<void> on_ihave(BytesView bytes) {
        EXO_TRY(add(rpc_.ihave, {}));
        auto& entry = rpc_.ihave.back();
        return for_each_field(bytes, [&](ProtobufField const& field) -> Result<void> {
            if (field.is_bytes(ihave_topic)) {
                entry.topic = as_text(field.bytes);
            } else if (field.is_bytes(ihave_ids)) {
                return add(entry.ids, as_text(field.bytes));
            }
            return {};
        });
    }

    Result<void> on_ids(BytesView bytes, std::vector<std::string_view>& ids) {
        return for_each_field(bytes, [&](ProtobufField const& field) -> Result<void> {
            return field.is_bytes(only_ids) ? add(ids, as_text(field.bytes)) : Result<void>();
        });
    }

    Result<void> on_graft(BytesView bytes) {
        std::string_view topic;
        EXO_TRY(for_each_field(bytes, [&](ProtobufField const& field) -> Result<void> {
            if (field.is_bytes(graft_topic)) {
                topic = as_text(field.bytes);
            }
            return {};
        }));
        return add(rpc_.graft, topic);
    }

    Result<void> on_prune(BytesView bytes) {
        ReceivedRpc::Prune entry;
        EXO_TRY(for_each_field(bytes, [&](ProtobufField const& field) -> Result<void> {
            if (field.is_bytes(prune_topic)) {
                entry.topic = as_text(field.bytes);
            } else if (field.is_varint(prune_backoff)) {
                entry.backoff_seconds = field.value;
            }
            return {};
        }));
        return add(rpc_.prune, entry);
    }

    Limits const& limits_;
    ReceivedRpc rpc_;
    std::size_t entries_ = 0;
};

} // namespace

Result<ReceivedRpc> read_rpc(BytesView bytes, Limits const& limits) {
    return RpcReader(limits).read(bytes);
}

} // namespace exo::net::gossipsub
