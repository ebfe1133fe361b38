// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/weight_homes.hpp"

#include <gtest/gtest.h>

namespace exo::engine {
namespace {

constexpr std::uint64_t plenty = 1u << 30;

// Weights one after the other, each at the next multiple of the alignment.
std::vector<WeightUse> weights(std::vector<std::size_t> const& sizes) {
    std::vector<WeightUse> list;
    std::uintptr_t at = 4096;
    for (auto const size : sizes) {
        list.push_back({{at, at + size}, true});
        at = (at + size + 255) / 256 * 256;
    }
    return list;
}

TEST(WeightHomes, neighbours_share_a_buffer) {
    auto const list = weights({1000, 2000, 3000});
    auto const homes = choose_weight_homes(list, {plenty, plenty});
    EXPECT_EQ(homes.on_gpu, (std::vector<ByteRange>{{4096, list[2].memory.end}}));
    EXPECT_EQ(homes.gpu_bytes, 6000u);
}

TEST(WeightHomes, a_weight_that_stays_parts_its_neighbours) {
    auto list = weights({1000, 100, 3000});
    list[1].gpu_can = false;
    auto const homes = choose_weight_homes(list, {plenty, plenty});
    EXPECT_EQ(homes.on_gpu, (std::vector<ByteRange>{list[0].memory, list[2].memory}));
    EXPECT_EQ(homes.host_bytes_without_kernel, 100u);
}

TEST(WeightHomes, the_first_without_room_ends_it_so_that_whole_layers_stay) {
    auto const list = weights({1000, 2000, 100});
    auto const homes = choose_weight_homes(list, {2500, plenty});
    EXPECT_EQ(homes.on_gpu, (std::vector<ByteRange>{list[0].memory}));
    EXPECT_EQ(homes.host_bytes_without_room, 2100u);
}

TEST(WeightHomes, a_weight_larger_than_the_gpu_is_passed_over) {
    auto const list = weights({9000, 2000});
    auto const homes = choose_weight_homes(list, {2500, plenty});
    EXPECT_EQ(homes.on_gpu, (std::vector<ByteRange>{list[1].memory}));
    EXPECT_EQ(homes.host_bytes_without_room, 9000u);
}

TEST(WeightHomes, a_buffer_grows_to_the_limit_and_a_larger_weight_has_its_own) {
    auto const list = weights({1000, 1000, 5000, 1000});
    auto const homes = choose_weight_homes(list, {plenty, 2500});
    EXPECT_EQ(
        homes.on_gpu,
        (std::vector<ByteRange>{
            {list[0].memory.begin, list[1].memory.end}, list[2].memory, list[3].memory
        })
    );
}

TEST(WeightHomes, their_order_does_not_matter) {
    auto list = weights({1000, 2000, 3000});
    std::swap(list[0], list[2]);
    EXPECT_EQ(choose_weight_homes(list, {plenty, plenty}).on_gpu.size(), 1u);
}

} // namespace
} // namespace exo::engine
