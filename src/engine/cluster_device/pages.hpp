// SPDX-License-Identifier: Apache-2.0
//
// Memory as the operating system deals it out.
#pragma once

#include <cstddef>

namespace exo::engine {

[[nodiscard]] std::size_t page_bytes();

// Rounded up to whole pages, one at least.
[[nodiscard]] std::size_t whole_pages(std::size_t bytes);

// The pages that lie within the range entirely cost nothing until they are used again; what they
// held is lost. Neighbours of the range stay as they are.
void give_back_pages(void* at, std::size_t bytes);

} // namespace exo::engine
