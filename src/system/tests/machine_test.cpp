// SPDX-License-Identifier: Apache-2.0
//
// What must hold on any machine that runs these tests.
#include "system/machine.hpp"

#include <gtest/gtest.h>

namespace exo::system {
namespace {

TEST(Machine, has_memory_and_keeps_a_reserve) {
    auto const now = memory();
    EXPECT_GT(now.ram_total.in_bytes, 64u << 20);
    EXPECT_GT(now.ram_available.in_bytes, 0u);
    EXPECT_LT(now.ram_available.in_bytes, now.ram_total.in_bytes);
    EXPECT_LE(now.swap_available.in_bytes, now.swap_total.in_bytes);
}

TEST(Machine, a_memory_limit_bounds_what_is_available) {
    EXPECT_EQ(memory({.limit_bytes = 1000}).ram_available.in_bytes, 1000u);
    EXPECT_EQ(memory({.limit_bytes = 1000, .used_bytes = 400}).ram_available.in_bytes, 600u);
    EXPECT_EQ(memory({.limit_bytes = 1000, .used_bytes = 4000}).ram_available.in_bytes, 0u);
}

TEST(Machine, has_a_name_and_an_operating_system) {
    auto const self = identity();
    EXPECT_FALSE(self.friendly_name.empty());
    EXPECT_NE(self.os_build_version, "Unknown");
    EXPECT_EQ(self.friendly_name.find('\n'), std::string::npos);
}

TEST(Machine, the_disk_of_a_folder_that_does_not_exist_yet_is_known) {
    auto const space = disk("/tmp/exo-does-not-exist/models");
    EXPECT_GT(space.total.in_bytes, 0u);
    EXPECT_LE(space.available.in_bytes, space.total.in_bytes);
    EXPECT_GT(disk("relative").total.in_bytes, 0u);
}

TEST(Machine, has_a_core) {
    EXPECT_GE(physical_cores(), 1u);
    EXPECT_LE(physical_cores(), 4096u);
}

} // namespace
} // namespace exo::system
