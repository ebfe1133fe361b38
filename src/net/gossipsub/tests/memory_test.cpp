// SPDX-License-Identifier: Apache-2.0
//
// Peers that send as much as they can and read nothing: what the router keeps because of one of
// them stays below peer_bytes_max(). Memory is measured, not computed: operator new counts.
#include "router_fixture.hpp"

#include <cstdlib>
#include <malloc.h>
#include <new>

namespace {

std::size_t allocated = 0;

} // namespace

void* operator new(std::size_t size) {
    void* const memory = std::malloc(size); // NOLINT
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    allocated += malloc_usable_size(memory);
    return memory;
}

void operator delete(void* memory) noexcept {
    allocated -= malloc_usable_size(memory);
    std::free(memory); // NOLINT
}

void operator delete(void* memory, std::size_t) noexcept {
    operator delete(memory);
}

namespace exo::net::gossipsub {
namespace {

constexpr std::uint8_t evil = 2;
// More than fit any of the limits of a heartbeat.
constexpr int many = 6000;
constexpr int heartbeats = 8;

// A name of `size` letters that is not used again.
std::string new_name(std::size_t size) {
    static std::uint64_t count = 0;
    auto name = std::to_string(++count);
    return name + std::string(size - name.size(), 'x');
}

class RouterMemory : public testing::Test {
protected:
    RouterMemory() {
        node_.meet(evil, "a");
        node_.meet(3, "a");
        for (auto const* topic : {"b", "c", "d"}) {
            node_.router.subscribe(topic, node_.now);
        }
        before_ = allocated;
    }

    // What the router keeps now and did not before.
    [[nodiscard]] std::size_t kept() const { return allocated > before_ ? allocated - before_ : 0; }

    void hear(pb::Rpc const& rpc) { node_.hear(evil, bytes_of(rpc)); }

    Limits const limits_;
    Node node_{{"a"}};
    std::size_t before_ = 0;
};

TEST_F(RouterMemory, of_a_peer_that_sends_all_it_can_think_of_and_reads_nothing_is_bounded) {
    std::size_t most = 0;
    for (int beat = 0; beat < heartbeats; ++beat) {
        {
            pb::Rpc rpc;
            for (int i = 0; i < many / 4; ++i) {
                auto& entry = *rpc.add_subscriptions();
                entry.set_subscribe(true);
                entry.set_topic(new_name(limits_.topic_bytes_max));
            }
            hear(rpc);
        }
        for (auto const* topic : {"a", "b", "c", "d"}) {
            pb::Rpc rpc;
            auto& control = *rpc.mutable_control();
            control.add_graft()->set_topic(topic);
            control.add_prune()->set_topic(topic);
            auto& ihave = *control.add_ihave();
            ihave.set_topic(topic);
            for (int i = 0; i < many; ++i) {
                ihave.add_ids(new_name(limits_.id_bytes_max));
            }
            hear(rpc);
        }
        {
            pb::Rpc rpc;
            auto& control = *rpc.mutable_control();
            for (int i = 0; i < many; ++i) {
                control.add_idontwant()->add_ids(new_name(limits_.id_bytes_max));
                control.add_iwant()->add_ids(new_name(limits_.id_bytes_max));
            }
            hear(rpc);
        }
        most = std::max(most, kept());
        node_.heartbeat_after(1s);
    }
    EXPECT_LE(most, peer_bytes_max(limits_));
    EXPECT_GT(most, limits_.ids_max * limits_.id_bytes_max); // The flood has come that far.
    node_.router.peer_disconnected(peer(evil));
    node_.heartbeat_after(1h);
    EXPECT_LT(kept(), 100'000U);
}

TEST_F(RouterMemory, of_messages_for_a_peer_that_reads_nothing_is_bounded) {
    for (std::size_t const size : {0U, 100U, 1'000'000U}) {
        Outbox outbox(limits_.outbox);
        std::size_t most = 0;
        for (int i = 0; i < (size < 1000 ? 200'000 : 60); ++i) {
            // As if forwarded: nobody else keeps it.
            auto const encoded = std::make_shared<Bytes const>(size);
            outbox.push(new_name(70), encoded, start + 10s);
            most = std::max(most, kept());
        }
        EXPECT_LE(most, limits_.outbox.queue_bytes_max * 11 / 10) << size;
        EXPECT_GT(most, limits_.outbox.queue_bytes_max / 2) << size;
    }
}

// Objects of the protobuf library would take 200 MiB for these 8 MiB.
TEST_F(RouterMemory, to_read_an_rpc_of_millions_of_empty_entries_takes_little) {
    for (auto const* entry : {"0a00", "1200", "1a020a00", "1a021200"}) {
        auto const one = hex(entry);
        Bytes rpc;
        rpc.reserve(limits_.rpc_bytes_max);
        while (rpc.size() + one.size() <= limits_.rpc_bytes_max) {
            append(rpc, one);
        }
        auto const before = allocated;
        auto const received = read_rpc(rpc, limits_);
        ASSERT_TRUE(received);
        EXPECT_LE(allocated - before, 4U * 1024 * 1024) << entry;
    }
}

} // namespace
} // namespace exo::net::gossipsub
