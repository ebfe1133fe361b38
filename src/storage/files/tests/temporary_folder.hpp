// SPDX-License-Identifier: Apache-2.0
//
// A folder of its own for one test, removed with it.
#pragma once

#include "base/entropy.hpp"

#include <filesystem>

namespace exo::storage::tests {

class TemporaryFolder {
public:
    TemporaryFolder()
        : path_(std::filesystem::temp_directory_path() / ("exo-test-" + random_uuid())) {
        std::filesystem::create_directories(path_);
    }

    TemporaryFolder(TemporaryFolder const&) = delete;
    TemporaryFolder& operator=(TemporaryFolder const&) = delete;

    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::filesystem::path const& path() const { return path_; }

private:
    std::filesystem::path path_;
};

} // namespace exo::storage::tests
