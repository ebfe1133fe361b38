// SPDX-License-Identifier: Apache-2.0
//
// Small files on disk, read whole and replaced whole. Blocking: for small files, and for threads
// that may wait.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <filesystem>

namespace exo::storage {

// Makes `path` hold `bytes`, or leaves it as it was: written beside it, synced, renamed over it,
// and the folder synced. Missing folders are made (mode 0700). `mode` as in chmod. Error: io.
[[nodiscard]] Result<>
atomic_write(std::filesystem::path const& path, BytesView bytes, unsigned mode = 0600);

// The whole file. Errors: not_found; limit (more than `bytes_max`, without reading it); io.
[[nodiscard]] Result<Bytes> read_file(std::filesystem::path const& path, std::uint64_t bytes_max);

struct SecretFile {
    Bytes bytes;
    bool was_open = false; // To others than its owner, who may have read it.
};

// The same of a file that only its owner may read and write. One that is open to others has its
// mode set to 0600 first. Errors: as above; io also when the mode cannot be set.
[[nodiscard]] Result<SecretFile>
read_secret_file(std::filesystem::path const& path, std::uint64_t bytes_max);

// At most `bytes_count` bytes from `offset`; fewer only at the end of the file. Errors: as above.
[[nodiscard]] Result<Bytes>
read_range(std::filesystem::path const& path, std::uint64_t offset, std::uint64_t bytes_count);

// Removes it for good, also after a power cut. False: there was none. Error: io.
[[nodiscard]] Result<bool> remove_file(std::filesystem::path const& path);

// Makes the folder and those above it (mode 0700 for new ones). Error: io.
[[nodiscard]] Result<> make_folder(std::filesystem::path const& path);

} // namespace exo::storage
