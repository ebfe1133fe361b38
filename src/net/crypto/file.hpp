// SPDX-License-Identifier: Apache-2.0
//
// Files with secrets: small, readable by their owner only, replaced as a whole. Blocking; called at
// start-up.
#pragma once

#include "base/bytes.hpp"

#include <filesystem>

namespace exo::net {

// At most `bytes_max` + 1 bytes are read: one more than allowed tells a longer file.
// Errors: not_found, io.
[[nodiscard]] Result<Bytes>
read_small_file(std::filesystem::path const& file, std::size_t bytes_max);

// Writes beside `file`, forces that to disk, renames: a crash leaves the old file or the new one.
// Mode 0600. Makes the folder (0700) if it is missing. Error: io.
[[nodiscard]] Result<void> replace_private_file(std::filesystem::path const& file, BytesView bytes);

} // namespace exo::net
