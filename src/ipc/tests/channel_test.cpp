// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace exo::ipc {
namespace {

// A channel and the node's end of its line.
struct Line {
    Line() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        node = ends[0];
        channel.emplace(ends[1]);
    }

    ~Line() { hang_up(); }

    void write(Bytes const& bytes) const {
        EXPECT_EQ(send(node, bytes.data(), bytes.size(), 0), std::ssize(bytes));
    }

    void hang_up() {
        if (node >= 0) {
            close(std::exchange(node, -1));
        }
    }

    int node = -1;
    std::optional<Channel> channel;
};

TEST(Channel, reads_messages_in_their_order) {
    Line line;
    auto bytes = *encode(ToRunner(Cancel{model::TaskId("a")}));
    append(bytes, *encode(ToRunner(Shutdown{})));
    line.write(bytes);
    EXPECT_TRUE(*line.channel->read_message() == ToRunner(Cancel{model::TaskId("a")}));
    EXPECT_TRUE(*line.channel->read_message() == ToRunner(Shutdown{}));
}

TEST(Channel, says_when_the_node_is_gone) {
    Line line;
    line.hang_up();
    EXPECT_EQ(line.channel->read_message().error().code(), Errc::io);
    EXPECT_EQ(line.channel->write_message(Fault{"x"}).error().code(), Errc::io);
}

TEST(Channel, refuses_what_no_node_sends) {
    Line line;
    line.write(*encode(FromRunner(Listening{1})));
    EXPECT_EQ(line.channel->read_message().error().code(), Errc::protocol);
}

TEST(Channel, keeps_messages_of_several_writers_whole) {
    Line line;
    constexpr int writers = 4;
    constexpr std::size_t messages = 200;
    std::vector<std::thread> threads;
    for (int i = 0; i < writers; ++i) {
        threads.emplace_back([&line, i] {
            for (std::size_t n = 0; n < messages; ++n) {
                ASSERT_TRUE(line.channel->write_message(
                    Fault{std::string(n * 10, static_cast<char>('a' + i))}
                ));
            }
        });
    }
    FrameReader reader;
    std::array<std::uint8_t, 5000> bytes;
    for (std::size_t found = 0; found < writers * messages;) {
        auto const count = recv(line.node, bytes.data(), bytes.size(), 0);
        ASSERT_GT(count, 0);
        reader.feed(BytesView(bytes).first(static_cast<std::size_t>(count)));
        while (auto const document = *reader.next()) {
            auto const message = decode_from_runner(*document);
            ASSERT_TRUE(message);
            auto const& text = std::get<Fault>(*message).message;
            ASSERT_EQ(text, std::string(text.size(), text.empty() ? 'x' : text[0]));
            ++found;
        }
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

} // namespace
} // namespace exo::ipc
