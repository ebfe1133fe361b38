// SPDX-License-Identifier: Apache-2.0
#include "net/host/byte_queue.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

Bytes counting(std::size_t size, std::size_t first = 0) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::uint8_t>(first + i);
    }
    return bytes;
}

Bytes read(ByteQueue& queue, std::size_t size) {
    Bytes into(size);
    into.resize(queue.read(into));
    return into;
}

TEST(ByteQueue, gives_back_in_order_what_it_got_in_any_cut) {
    for (std::size_t pushed = 1; pushed < 40; ++pushed) {
        for (std::size_t const wanted : {1U, 3U, 64U, 1000U}) {
            ByteQueue queue;
            for (std::size_t at = 0; at < 200; at += pushed) {
                queue.push(counting(std::min(pushed, 200 - at), at));
            }
            Bytes all;
            while (!queue.empty()) {
                append(all, read(queue, wanted));
            }
            ASSERT_EQ(all, counting(200)) << "pieces of " << pushed << ", reads of " << wanted;
        }
    }
}

TEST(ByteQueue, large_pieces_stay_whole_and_a_read_goes_over_their_borders) {
    ByteQueue queue;
    queue.push(counting(100'000));
    queue.push(counting(100'000, 100'000));
    EXPECT_EQ(read(queue, 150'000), counting(150'000));
    EXPECT_EQ(read(queue, 100'000), counting(50'000, 150'000));
    EXPECT_TRUE(queue.empty());
}

TEST(ByteQueue, what_is_put_back_comes_first) {
    ByteQueue queue;
    queue.push(counting(10, 5));
    EXPECT_EQ(read(queue, 3), counting(3, 5));
    queue.push_front(counting(3, 5));
    queue.push_front({});
    queue.push({});
    EXPECT_EQ(read(queue, 100), counting(10, 5));
}

TEST(ByteQueue, a_window_of_single_bytes_takes_little_more_memory_than_its_bytes) {
    ByteQueue queue;
    constexpr std::size_t window = 256 * 1024;
    for (std::size_t i = 0; i < window; ++i) {
        queue.push({7});
    }
    EXPECT_LE(queue.allocated_bytes(), 2 * window);
    queue.clear();
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.allocated_bytes(), 0U);
}

} // namespace
} // namespace exo::net
