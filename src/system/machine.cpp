// SPDX-License-Identifier: Apache-2.0
#include "system/machine.hpp"

#include "system/parse.hpp"
#include "system/read.hpp"

#include <algorithm>
#include <array>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

#ifdef __APPLE__
#include <sys/sysctl.h>
#else
#include <sched.h>
#endif

namespace exo::system {
namespace {

std::string or_unknown(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) {
        text.pop_back();
    }
    return text.empty() ? "Unknown" : text;
}

std::string host_name() {
    std::array<char, 256> name{};
    bool const ok = ::gethostname(name.data(), name.size() - 1) == 0;
    return ok ? std::string(name.data()) : std::string();
}

#ifdef __APPLE__

std::string sysctl_text(char const* name) {
    std::array<char, 256> text{};
    std::size_t size = text.size() - 1;
    return sysctlbyname(name, text.data(), &size, nullptr, 0) == 0 ? std::string(text.data()) : "";
}

void describe_machine(model::NodeIdentity& identity) {
    identity.model_id = or_unknown(sysctl_text("hw.model"));
    identity.chip_id = or_unknown(sysctl_text("machdep.cpu.brand_string"));
    identity.os_version = or_unknown("macOS " + sysctl_text("kern.osproductversion"));
    identity.os_build_version = or_unknown(sysctl_text("kern.osversion"));
}

unsigned cores_of_machine() {
    int cores = 0;
    std::size_t size = sizeof cores;
    bool const ok = sysctlbyname("hw.physicalcpu", &cores, &size, nullptr, 0) == 0 && cores > 0;
    return ok ? static_cast<unsigned>(cores) : 0;
}

unsigned threads_allowed() {
    return std::thread::hardware_concurrency();
}

#else

void describe_machine(model::NodeIdentity& identity) {
    auto product = read_small("/sys/class/dmi/id/product_name");
    if (product.empty()) {
        product = read_small("/proc/device-tree/model"); // ARM boards; ends with a zero byte.
    }
    identity.model_id = or_unknown(product);
    identity.chip_id = or_unknown(parse_cpu_model(read_small("/proc/cpuinfo")));
    identity.os_version =
        or_unknown(parse_os_release(read_small("/etc/os-release"), "PRETTY_NAME"));
    struct utsname kernel{};
    identity.os_build_version = or_unknown(::uname(&kernel) == 0 ? kernel.release : "");
}

unsigned cores_of_machine() {
    return parse_physical_cores(read_small("/proc/cpuinfo"));
}

// Fewer than the machine has in a container with a CPU set.
unsigned threads_allowed() {
    cpu_set_t set;
    CPU_ZERO(&set);
    bool const ok = ::sched_getaffinity(0, sizeof set, &set) == 0;
    return ok ? static_cast<unsigned>(CPU_COUNT(&set)) : std::thread::hardware_concurrency();
}

#endif

} // namespace

model::NodeIdentity identity() {
    model::NodeIdentity identity;
    identity.friendly_name = or_unknown(host_name());
    describe_machine(identity);
    return identity;
}

model::NodeDisk disk(std::filesystem::path const& path) {
    std::error_code error;
    auto folder = std::filesystem::absolute(path, error);
    while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) {
        folder = folder.parent_path();
    }
    auto const space = std::filesystem::space(folder, error);
    model::NodeDisk disk;
    if (!error) {
        disk.total.in_bytes = space.capacity;
        disk.available.in_bytes = space.available;
    }
    return disk;
}

unsigned physical_cores() {
    unsigned const threads = std::max(threads_allowed(), 1u);
    unsigned const cores = cores_of_machine();
    return cores == 0 ? threads : std::min(cores, threads);
}

} // namespace exo::system
