// SPDX-License-Identifier: Apache-2.0
//
// Ranks for tests: threads of this process, joined over loopback. And a rank by hand, which can do
// what a real one never would.
#pragma once

#include "collective/tcp/handshake.hpp"
#include "collective/tcp/tcp_group.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <poll.h>
#include <thread>

namespace exo::collective {

inline Key const test_key{4, 5, 6};

inline Membership test_member(std::uint32_t rank) {
    return {.rank = rank, .instance_id = "instance", .program = "exo of the tests"};
}

struct Ports {
    std::vector<Listener> listeners;
    std::vector<Endpoint> endpoints;

    explicit Ports(std::uint32_t size) {
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            auto listener = Listener::open();
            EXPECT_TRUE(listener);
            endpoints.push_back({.addresses = {"127.0.0.1"}, .port = listener->port()});
            listeners.push_back(std::move(*listener));
        }
    }
};

// Runs `program` as every rank of a group, each in its own thread, and ends the group.
inline void run_ranks(
    std::uint32_t size, TcpOptions const& options, std::function<void(Group&)> const& program
) {
    Ports ports(size);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            auto group = TcpGroup::connect(
                std::move(ports.listeners[rank]),
                test_key,
                test_member(rank),
                ports.endpoints,
                options
            );
            ASSERT_TRUE(group) << group.error().text();
            program(**group);
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

// Rank 1 of 2, by hand: shakes hands as it should, and then does what the test wants.
class HandmadeRank {
public:
    explicit HandmadeRank(std::uint16_t port, bool plain = false) {
        auto const address = Address::parse("127.0.0.1", port);
        socket_ = *start_connect(*address);
        Handshake::Self self{.key = test_key, .membership = test_member(1), .size = 2};
        auto handshake = Handshake::dial(std::move(self), 0, "rank 0", Nonce32{7});
        if (plain) {
            handshake.allow_plain();
        }
        while (!handshake.complete()) {
            write(handshake.take_output());
            EXPECT_TRUE(handshake.receive(read_some()));
        }
        handshake.choose();
        write(handshake.take_output());
        session_.emplace(handshake.take_session());
        send({.kind = RecordKind::ready}, "");
    }

    void send(RecordHeader header, std::string_view payload) {
        Bytes record;
        session_->sealer.seal(header, as_bytes(payload), record);
        write(record);
    }

    Bytes sealed(RecordHeader header, BytesView payload) {
        Bytes record;
        session_->sealer.seal(header, payload, record);
        return record;
    }

    void send_message(Operation operation, std::string_view text) {
        RecordHeader const header{
            .kind = RecordKind::message,
            .operation = operation,
            .message_bytes = static_cast<std::uint32_t>(text.size()),
        };
        send(header, text);
    }

    void write(Bytes const& bytes) {
        std::size_t sent = 0;
        while (sent < bytes.size()) {
            wait_for(POLLOUT);
            auto const count = send_some(socket_, BytesView(bytes).subspan(sent));
            ASSERT_TRUE(count) << count.error().text();
            sent += *count;
        }
    }

    // Empty at the end of the stream.
    Bytes read_some() {
        Bytes bytes(4096);
        wait_for(POLLIN);
        auto const count = receive_some(socket_, bytes);
        bytes.resize(count && *count ? **count : 0);
        return bytes;
    }

    // The text of the last record that rank 0 sends before it closes.
    std::string last_words() {
        Bytes all = session_->rest;
        for (Bytes more = read_some(); !more.empty(); more = read_some()) {
            append(all, more);
        }
        std::string words;
        while (all.size() >= record_header_bytes) {
            auto const header = parse_record_header(all);
            Bytes payload(header->payload_bytes);
            auto const body = BytesView(all).subspan(record_header_bytes, body_bytes(*header));
            EXPECT_TRUE(session_->opener.open(*header, all, body, payload));
            words = fmt::format("{} {}", static_cast<int>(header->kind), as_text(payload));
            auto const size = record_header_bytes + body_bytes(*header);
            all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
        }
        return words;
    }

    void crash() { socket_ = Socket(); }

private:
    void wait_for(int bits) {
        pollfd polled{socket_.descriptor(), static_cast<short>(bits), 0};
        ASSERT_EQ(poll(&polled, 1, 10'000), 1) << "rank 0 does not go on";
    }

    Socket socket_;
    std::optional<Session> session_;
};

} // namespace exo::collective
