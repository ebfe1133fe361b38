// SPDX-License-Identifier: Apache-2.0
//
// The samples are recordings, cut to the lines that matter.
#include "system/parse.hpp"

#include <gtest/gtest.h>

namespace exo::system {
namespace {

constexpr std::uint64_t kib = 1024;

TEST(ParseMeminfo, a_current_kernel) {
    auto const memory = parse_meminfo("MemTotal:       16316412 kB\n"
                                      "MemFree:          524288 kB\n"
                                      "MemAvailable:   12000000 kB\n"
                                      "Buffers:          100000 kB\n"
                                      "Cached:         11000000 kB\n"
                                      "SwapCached:          123 kB\n"
                                      "SwapTotal:       2097148 kB\n"
                                      "SwapFree:        2097000 kB\n"
                                      "HugePages_Total:       0\n");
    EXPECT_EQ(memory.ram_total.in_bytes, 16316412 * kib);
    EXPECT_EQ(memory.ram_available.in_bytes, 12000000 * kib);
    EXPECT_EQ(memory.swap_total.in_bytes, 2097148 * kib);
    EXPECT_EQ(memory.swap_available.in_bytes, 2097000 * kib);
}

TEST(ParseMeminfo, an_old_kernel_without_available_memory) {
    auto const memory =
        parse_meminfo("MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 20 kB\nCached: 300 kB\n");
    EXPECT_EQ(memory.ram_available.in_bytes, 420 * kib);
}

TEST(ParseMeminfo, anything_else_gives_zero) {
    for (auto const* text :
         {"",
          "MemTotal",
          "MemTotal:",
          "MemTotal: x kB",
          "MemTotal: 99999999999999999999 kB\n",
          "::\n\n"}) {
        EXPECT_EQ(parse_meminfo(text), model::NodeMemory{}) << text;
    }
}

TEST(ParseCgroup, unified_version_1_and_both) {
    EXPECT_EQ(
        parse_proc_cgroup("0::/user.slice/user-1000.slice/session-2.scope\n"),
        (CgroupPaths{.unified = "/user.slice/user-1000.slice/session-2.scope", .memory = ""})
    );
    EXPECT_EQ(
        parse_proc_cgroup("12:cpuset:/\n11:memory:/docker/0123:4\n3:cpu,cpuacct:/docker/0123\n"
                          "1:name=systemd:/docker/0123\n0::/system.slice/containerd.service\n"),
        (CgroupPaths{.unified = "/system.slice/containerd.service", .memory = "/docker/0123:4"})
    );
    EXPECT_EQ(parse_proc_cgroup("0::/\n").unified, "/");
    EXPECT_EQ(parse_proc_cgroup(""), CgroupPaths{});
    EXPECT_EQ(parse_proc_cgroup("junk\n:\n::\n"), CgroupPaths{});
}

TEST(ParseCgroup, a_limit_or_none) {
    EXPECT_EQ(parse_cgroup_limit("max\n"), std::nullopt);
    EXPECT_EQ(parse_cgroup_limit(""), std::nullopt);
    EXPECT_EQ(parse_cgroup_limit("9223372036854771712\n"), std::nullopt); // v1: no limit
    EXPECT_EQ(parse_cgroup_limit("536870912\n"), 536870912u);
    EXPECT_EQ(parse_cgroup_limit("0\n"), 0u);
}

TEST(ParseCgroup, fields_of_memory_stat) {
    auto const* text = "anon 100\nfile 200\ninactive_file 4096\nactive_file 1\n";
    EXPECT_EQ(parse_stat_field(text, "inactive_file"), 4096u);
    EXPECT_EQ(parse_stat_field(text, "file"), 200u);
    EXPECT_EQ(parse_stat_field(text, "none"), std::nullopt);
    EXPECT_EQ(parse_stat_field("inactive_file", "inactive_file"), std::nullopt);
}

TEST(CgroupMemory, B122_reclaimable_cache_counts_as_free) {
    model::NodeMemory machine;
    machine.ram_total.in_bytes = 1000;
    machine.ram_available.in_bytes = 800;
    auto const bounded =
        bound_by(machine, {.limit_bytes = 500, .used_bytes = 400, .reclaimable_bytes = 350});
    EXPECT_EQ(bounded.ram_total.in_bytes, 500u);
    EXPECT_EQ(bounded.ram_available.in_bytes, 450u);
}

TEST(CgroupMemory, never_gives_more_than_the_machine_has) {
    model::NodeMemory machine;
    machine.ram_total.in_bytes = 1000;
    machine.ram_available.in_bytes = 100;
    EXPECT_EQ(
        bound_by(machine, {.limit_bytes = 5000, .used_bytes = 0}).ram_available.in_bytes, 100u
    );
    EXPECT_EQ(bound_by(machine, {.limit_bytes = 50, .used_bytes = 60}).ram_available.in_bytes, 0u);
    auto const odd =
        bound_by(machine, {.limit_bytes = 50, .used_bytes = 10, .reclaimable_bytes = 60});
    EXPECT_EQ(odd.ram_available.in_bytes, 50u);
}

TEST(ParseOsRelease, quoted_and_plain_values) {
    auto const* text = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nX='y'\nZ=\"\n";
    EXPECT_EQ(parse_os_release(text, "PRETTY_NAME"), "Debian GNU/Linux 12 (bookworm)");
    EXPECT_EQ(parse_os_release(text, "ID"), "debian");
    EXPECT_EQ(parse_os_release(text, "X"), "y");
    EXPECT_EQ(parse_os_release(text, "Z"), "\"");
    EXPECT_EQ(parse_os_release(text, "NAME"), "");
}

auto const* const intel =
    "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz\n"
    "physical id\t: 0\ncore id\t\t: 0\n\n"
    "processor\t: 1\nmodel name\t: Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz\n"
    "physical id\t: 0\ncore id\t\t: 0\n\n"
    "processor\t: 2\nphysical id\t: 0\ncore id\t\t: 1\n\n"
    "processor\t: 3\nphysical id\t: 1\ncore id\t\t: 1\n\n";
auto const* const raspberry =
    "processor\t: 0\nBogoMIPS\t: 108.00\nCPU part\t: 0xd0b\n\nprocessor\t: 1\n\n"
    "Revision\t: c04170\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n";

TEST(ParseCpuinfo, the_processors_name) {
    EXPECT_EQ(parse_cpu_model(intel), "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz");
    EXPECT_EQ(parse_cpu_model(raspberry), "Raspberry Pi 5 Model B Rev 1.0");
    EXPECT_EQ(parse_cpu_model(""), "");
}

TEST(ParseCpuinfo, hardware_threads_of_a_core_count_once) {
    EXPECT_EQ(parse_physical_cores(intel), 3u);
    EXPECT_EQ(parse_physical_cores(raspberry), 0u); // It does not say.
}

} // namespace
} // namespace exo::system
