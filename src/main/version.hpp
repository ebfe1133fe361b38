// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace exo::cli {

constexpr char const* version = EXO_VERSION; // From CMakeLists.txt.

} // namespace exo::cli
