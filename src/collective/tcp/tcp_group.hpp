// SPDX-License-Identifier: Apache-2.0
//
// A group whose ranks are joined by one TCP connection for each pair.
//
//     auto listener = Listener::open();            // Tell the others listener->port() ...
//     auto group = TcpGroup::connect(std::move(*listener), key, membership, endpoints, options);
//
// Ranks prove to each other that they know the key of this instance's generation, and that they
// agree on everything in Membership but their rank; all that follows is encrypted
// (ChaCha20-Poly1305), except where both ends' options say that a link needs none: between ranks of
// one machine, and on networks that the operators of both declare private.
//
// Then they measure their links and agree on what they found, which decides how sums travel
// (schedules/choice.hpp).
//
// Threads: collective calls come from one thread at a time; fail(), health() and the destructor
// from any (the destructor after the last call has returned). The calling thread reads and writes
// the sockets itself while it waits, which saves a thread change per message; an I/O thread of the
// group drains large messages and sends what is left while the caller computes, and beats.
//
// Buffers: a send returns when its bytes are queued. It waits only while the window to that rank is
// full: outbox_bytes_max here and inbox_bytes_max there, for messages that no call waits for yet.
// The collective operations themselves cannot block each other, whatever their size.
#pragma once

#include "base/time.hpp"
#include "collective/group.hpp"
#include "collective/schedules/choice.hpp"
#include "collective/tcp/listener.hpp"
#include "collective/tcp/membership.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace exo::collective {

// Where a rank can be reached: numeric IP addresses (an IPv6 zone is allowed), best first.
struct Endpoint {
    std::vector<std::string> addresses;
    std::uint16_t port = 0;
};

struct TcpOptions {
    Duration connect_limit = 30s;
    Duration beat_interval = 500ms;
    std::uint32_t beats_missing_max = 6;
    // No cipher between ranks on one machine; both must allow it.
    bool plain_on_one_machine = false;
    // Networks without strangers ("10.1.2.0/24"): no cipher on a link both of whose ends are in one
    // of them; both ranks must say so.
    std::vector<std::string> private_networks;
    // How long a waiting call polls its sockets before it sleeps: see spin_time().
    Duration spin = 0us;
    // How sums travel; the same on all ranks, or the group does not form.
    Wish wish;
    // False: links count as link_within_machine, and nothing is agreed on. All ranks alike.
    bool measure_links = true;
    // Looked at while connecting; true ends it with Errc::cancelled.
    std::atomic<bool> const* cancelled = nullptr;
};

// What to spin when `threads` compute threads (of all ranks here) share `cores`: waiting must not
// take a core from one that computes.
[[nodiscard]] Duration spin_time(std::uint32_t cores, std::uint32_t threads);

class Reducer;
class TcpCore;

constexpr std::uint32_t ranks_max = 16; // llama.cpp can use no more (specs/engine.md).

class TcpGroup final : public Group {
public:
    // Blocks until every pair of ranks is connected and all are ready, or connect_limit is over.
    // `endpoints` by rank; the own one is not used. Errors: invalid_argument (endpoints, networks),
    // conflict (the ranks disagree on Membership or on options.wish), timed_out (names the missing
    // ranks, with what was tried), unavailable (a rank gave up), cancelled.
    [[nodiscard]] static Result<std::unique_ptr<TcpGroup>> connect(
        Listener listener,
        Key const& key,
        Membership const& membership,
        std::vector<Endpoint> const& endpoints,
        TcpOptions const& options
    );

    // Ends in good order: what is queued is sent (while the others take it, for 10 s at most) and
    // the others are told. They fail when they need this rank, or after the time of the beats.
    ~TcpGroup() override;

    [[nodiscard]] std::uint32_t rank() const override;
    [[nodiscard]] std::uint32_t size() const override;

    // Errors of all calls are those of the latch: unavailable (a rank crashed, fell silent, or
    // failed and said why), cancelled (a rank ended in good order), protocol.
    Result<void> send(std::uint32_t to, BytesView bytes) override;
    Result<void> receive(std::uint32_t from, std::span<std::uint8_t> bytes) override;
    Result<Bytes> receive_message(std::uint32_t from) override;
    Result<void> broadcast(std::uint32_t root, std::span<std::uint8_t> bytes) override;
    Result<void> all_reduce(std::span<float> values) override;
    Result<void> all_gather(BytesView part, std::span<std::uint8_t> all) override;
    Result<void> barrier() override;

    // The other ranks are told the error too.
    void fail(Error error) override;
    [[nodiscard]] Result<void> health() const override;

    // The links, with or without cipher, what was measured, and how sums go therefore.
    [[nodiscard]] std::string describe() const;

private:
    explicit TcpGroup(std::unique_ptr<TcpCore> core);

    [[nodiscard]] Result<void> prepare_sums(TcpOptions const& options);

    std::unique_ptr<TcpCore> core_;
    std::unique_ptr<Reducer> reducer_;
};

} // namespace exo::collective
