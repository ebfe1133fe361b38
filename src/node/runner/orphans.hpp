// SPDX-License-Identifier: Apache-2.0
//
// What a killed node leaves behind: its runners are written down (pid and start time, one file
// each), and a starting node first ends those of its earlier boot (specs/cluster.md W3). A pid that
// now belongs to another process is left alone, because its start time differs.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace exo::node {

class Orphans {
public:
    explicit Orphans(std::filesystem::path directory)
        : directory_(std::move(directory)) {}

    // Remembers a child that runs now.
    Result<void> add(int pid);

    // It was reaped.
    void remove(int pid);

    // Kills those of an earlier boot and waits until they are gone (`limit` for all together); for
    // the start of a node, before it has children. Returns their pids. Error: timed_out with the
    // pids that did not go away, io.
    Result<std::vector<int>> end_all(Duration limit);

private:
    [[nodiscard]] std::filesystem::path file_of(int pid) const;

    std::filesystem::path directory_;
};

// Tells a process from a later one with the same pid, on this and after another boot of the
// machine. Error: not_found when there is no such process (a zombie counts as none).
[[nodiscard]] Result<std::string> process_start_time(int pid);

} // namespace exo::node
