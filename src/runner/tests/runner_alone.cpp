// SPDX-License-Identifier: Apache-2.0
//
// `exo_runner_alone runner ...` is `exo runner ...` without the rest of exo.
#include "runner/runner.hpp"

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
    if (argc < 2 || std::string_view(argv[1]) != "runner") {
        std::fprintf(stderr, "usage: %s runner ...\n", argv[0]);
        return 2;
    }
    return exo::runner::run(argc - 1, argv + 1);
}
