// SPDX-License-Identifier: Apache-2.0
#include "system/parse.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace exo::system {
namespace {

constexpr std::uint64_t no_limit_min = std::uint64_t{1} << 60; // v1 writes about 2^63.
constexpr std::uint64_t kibi = 1024;

std::string_view trim(std::string_view text) {
    auto const first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
    text = trim(text);
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The value of the first line "key<separator>value"; nothing when there is none.
std::optional<std::string_view> field(std::string_view text, std::string_view key, char separator) {
    while (!text.empty()) {
        auto const line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        auto const at = line.find(separator);
        if (at != std::string_view::npos && trim(line.substr(0, at)) == key) {
            return trim(line.substr(at + 1));
        }
    }
    return std::nullopt;
}

} // namespace

model::NodeMemory parse_meminfo(std::string_view text) {
    auto const bytes = [&](std::string_view key) -> std::optional<std::uint64_t> {
        auto const value = field(text, key, ':');
        auto const number = value ? leading_number(*value) : std::nullopt;
        // "kB" in this file has always been 1024 bytes.
        return number && *number < no_limit_min / kibi ? std::optional(*number * kibi)
                                                       : std::nullopt;
    };
    model::NodeMemory memory;
    memory.ram_total.in_bytes = bytes("MemTotal").value_or(0);
    std::uint64_t const roughly =
        bytes("MemFree").value_or(0) + bytes("Buffers").value_or(0) + bytes("Cached").value_or(0);
    memory.ram_available.in_bytes =
        std::min(bytes("MemAvailable").value_or(roughly), memory.ram_total.in_bytes);
    memory.swap_total.in_bytes = bytes("SwapTotal").value_or(0);
    memory.swap_available.in_bytes = bytes("SwapFree").value_or(0);
    return memory;
}

CgroupPaths parse_proc_cgroup(std::string_view text) {
    CgroupPaths paths;
    for (auto const& line : split(text, '\n')) {
        auto const first = line.find(':');
        auto const second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) {
            continue;
        }
        auto const controllers = split(line.substr(first + 1, second - first - 1), ',');
        auto const path = line.substr(second + 1);
        if (line.substr(0, first) == "0" && controllers.front().empty()) {
            paths.unified = path;
        }
        if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
            paths.memory = path;
        }
    }
    return paths;
}

std::optional<std::uint64_t> parse_cgroup_limit(std::string_view text) {
    auto const number = leading_number(text);
    return number && *number < no_limit_min ? number : std::nullopt;
}

std::optional<std::uint64_t> parse_stat_field(std::string_view text, std::string_view key) {
    auto const value = field(text, key, ' ');
    return value ? leading_number(*value) : std::nullopt;
}

model::NodeMemory bound_by(model::NodeMemory memory, CgroupMemory const& cgroup) {
    std::uint64_t const held =
        cgroup.used_bytes - std::min(cgroup.used_bytes, cgroup.reclaimable_bytes);
    std::uint64_t const left = cgroup.limit_bytes - std::min(cgroup.limit_bytes, held);
    memory.ram_total.in_bytes = std::min(memory.ram_total.in_bytes, cgroup.limit_bytes);
    memory.ram_available.in_bytes = std::min(memory.ram_available.in_bytes, left);
    return memory;
}

std::string parse_os_release(std::string_view text, std::string_view name) {
    auto value = field(text, name, '=').value_or("");
    bool const quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
                        value.back() == value.front();
    return std::string(quoted ? value.substr(1, value.size() - 2) : value);
}

std::string parse_cpu_model(std::string_view text) {
    // x86; Raspberry Pi and other ARM boards; PowerPC.
    for (auto const* key : {"model name", "Model", "Hardware", "cpu"}) {
        auto const value = field(text, key, ':');
        if (value && !value->empty()) {
            return std::string(*value);
        }
    }
    return "";
}

unsigned parse_physical_cores(std::string_view text) {
    std::set<std::pair<std::string, std::string>> cores;
    std::string package = "0";
    for (auto const& line : split(text, '\n')) {
        if (auto const value = field(line, "physical id", ':')) {
            package = *value;
        } else if (auto const core = field(line, "core id", ':')) {
            cores.emplace(package, *core);
        }
    }
    return static_cast<unsigned>(cores.size());
}

} // namespace exo::system
