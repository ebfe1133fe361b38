// SPDX-License-Identifier: Apache-2.0
//
// `exo doctor`: why do they not find each other? Asks the node of this machine for its diagnosis,
// looks at the network itself, and says what was found with a remedy for each.
#pragma once

namespace exo::cli {

// argv[0] is "doctor". Returns the exit code: 0; 1, a finding is an error; 2, a wrong flag.
[[nodiscard]] int run_doctor_command(int argc, char** argv);

} // namespace exo::cli
