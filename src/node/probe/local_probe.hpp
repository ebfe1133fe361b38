// SPDX-License-Identifier: Apache-2.0
//
// Asks llama.cpp about the models on this node's disks, in a child process (`exo runner --probe`):
// what aborts there is a refusal, not the end of a node. One child at a time, with limits on time
// and output; its verdict is remembered as long as the file is the same.
//
// The network thread drives it. The object must outlive its coroutines.
#pragma once

#include "base/result.hpp"
#include "node/probe/output.hpp"
#include "node/scope.hpp"
#include "storage/models/model_library.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace exo::node {

struct LocalProbeOptions {
    std::filesystem::path executable;
    std::vector<std::string> arguments{"runner"}; // Before --probe.
    // It takes half a second; a disk that sleeps, or a busy machine, takes longer.
    Duration limit = 30s;
};

class LocalProbe {
public:
    // A verdict is some hundred bytes; more is not one.
    static constexpr std::size_t output_bytes_max = 1u << 20;
    static constexpr std::size_t remembered_max = 1024;
    // Questions that wait for the one child; a person asks one at a time.
    static constexpr std::size_t waiting_max = 64;

    explicit LocalProbe(LocalProbeOptions options);

    // Errors (never remembered): timed_out; io (it could not be started); protocol (it wrote
    // something else); limit (too many wait); not_found (the file is gone). A child that crashes
    // without a word is a verdict.
    asio::awaitable<Result<model::ModelCut>> ask(storage::LocalModel model, Way way);

private:
    asio::awaitable<Result<model::ModelCut>> run(storage::LocalModel const& model, Way const& way);

    LocalProbeOptions options_;
    std::map<std::string, model::ModelCut> verdicts_; // By file and way.
    bool busy_ = false;
    std::size_t waiting_ = 0;
    Notify freed_;
};

} // namespace exo::node
