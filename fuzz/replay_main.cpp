// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target over all files of the folders named: the corpus and old crashes. Needs no
// libFuzzer. Fails if there is nothing to replay.
#include "fuzz_target.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

namespace {

std::vector<char> read(std::filesystem::path const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

int main(int argc, char** argv) {
    std::set<std::filesystem::path> paths; // In order, so that a failure is always the same one.
    for (int i = 1; i < argc; ++i) {
        if (std::filesystem::is_directory(argv[i])) {
            for (auto const& entry : std::filesystem::directory_iterator(argv[i])) {
                paths.insert(entry.path());
            }
        }
    }
    for (auto const& path : paths) {
        std::printf("%s\n", path.c_str());
        std::fflush(stdout); // The last line names the input that crashed.
        auto const bytes = read(path);
        LLVMFuzzerTestOneInput(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size());
    }
    std::printf("%zu inputs\n", paths.size());
    return paths.empty() ? 1 : 0;
}
