// SPDX-License-Identifier: Apache-2.0
//
// The real model of tests: they are skipped without it.
#pragma once

#include <cstdlib>
#include <string>

namespace exo::engine {

// The demo model, or the one that EXO_TEST_MODEL names.
[[nodiscard]] inline std::string test_model() {
    auto const* const given = std::getenv("EXO_TEST_MODEL");
    return given != nullptr ? given
                            : EXO_SOURCE_DIR "/.deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

} // namespace exo::engine
