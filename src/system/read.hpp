// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc and /sys: small, without a size of their own. Private to this folder.
#pragma once

#include <array>
#include <fstream>
#include <string>

namespace exo::system {

// The text, at most 1 MiB of it; empty when it cannot be read. (/proc/cpuinfo of a machine with
// hundreds of cores has about that.)
inline std::string read_small(std::string const& path) {
    constexpr std::size_t bytes_max = 1u << 20;
    std::ifstream file(path);
    std::string text;
    std::array<char, 4096> buffer;
    while (file && text.size() < bytes_max) {
        file.read(buffer.data(), buffer.size());
        text.append(buffer.data(), static_cast<std::size_t>(file.gcount()));
    }
    return text;
}

} // namespace exo::system
