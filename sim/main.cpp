// SPDX-License-Identifier: Apache-2.0
//
// exo_sim: replays one seed of a scenario, for people. The same seed gives the same trace.
#include "sim/scenarios.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace exo::sim;

int usage() {
    fmt::print("exo_sim --seed N [--nodes K] [--scenario NAME] [-v]\n\nscenarios (default: all):\n"
    );
    for (auto const& scenario : scenarios()) {
        fmt::print("  {:34} {}\n", scenario.name, scenario.what);
    }
    return 2;
}

bool read_number(std::string_view text, std::uint64_t& number) {
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
}

int replay(Run const& run, std::string_view name) {
    int status = 2;
    for (auto const& scenario : scenarios()) {
        if (!name.empty() && scenario.name != name) {
            continue;
        }
        status = status == 2 ? 0 : status;
        try {
            fmt::print("{}: ok, trace {:016x}\n", scenario.name, scenario.run(run));
        } catch (Violation const& violation) {
            fmt::print("{}: FAILED: {}\n", scenario.name, violation.what());
            status = 1;
        }
    }
    return status == 2 ? usage() : status;
}

} // namespace

int main(int argument_count, char** arguments) {
    std::vector<std::string_view> const words(arguments + 1, arguments + argument_count);
    Run run;
    std::string_view scenario;
    bool has_seed = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        bool const has_value = i + 1 < words.size();
        std::uint64_t number = 0;
        if (words[i] == "-v") {
            run.verbose = true;
        } else if (words[i] == "--seed" && has_value && read_number(words[i + 1], run.seed)) {
            has_seed = true;
            ++i;
        } else if (words[i] == "--nodes" && has_value && read_number(words[i + 1], number) &&
                   number >= 2 && number <= 50) {
            run.node_count = number;
            ++i;
        } else if (words[i] == "--scenario" && has_value) {
            scenario = words[++i];
        } else {
            return usage();
        }
    }
    return has_seed ? replay(run, scenario) : usage();
}
