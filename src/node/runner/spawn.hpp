// SPDX-License-Identifier: Apache-2.0
//
// Starts a child that shares nothing with us but what it is given: two descriptors, a directory and
// a chosen environment.
#pragma once

#include "base/result.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace exo::node {

// Owns a descriptor.
class Descriptor {
public:
    Descriptor() = default;

    explicit Descriptor(int value)
        : value_(value) {}

    Descriptor(Descriptor&& other) noexcept
        : value_(other.release()) {}

    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }

    ~Descriptor();

    [[nodiscard]] int value() const { return value_; }

    [[nodiscard]] int release();

private:
    int value_ = -1;
};

// The two ends of a line, both close-on-exec. Error: io.
struct DescriptorPair {
    Descriptor ours;
    Descriptor theirs;
};

[[nodiscard]] Result<DescriptorPair> make_socket_pair();
// `ours` reads what is written to `theirs`.
[[nodiscard]] Result<DescriptorPair> make_pipe();

// The descriptor at which a child finds its end of the socket pair.
constexpr int child_line_descriptor = 3;

struct Spawn {
    std::filesystem::path executable;
    std::vector<std::string> arguments;   // Without the program's own name.
    std::vector<std::string> environment; // "NAME=value"
};

// The child has `line` at child_line_descriptor, `output` for stdout and stderr, /dev/null for
// stdin, and no other descriptor; default signals; its own process group, whose id is its pid; on
// Linux it is killed when the calling thread ends. Returns once it executes. Error: io.
[[nodiscard]] Result<int> spawn(Spawn const& what, Descriptor line, Descriptor output);

// What a runner may know of our environment: paths, the language, which GPUs it may use. Nothing
// that changes its graphs (LLAMA_*, GGML_* but GGML_VK_VISIBLE_DEVICES): all ranks must run the
// same program (specs/engine.md).
[[nodiscard]] std::vector<std::string>
runner_environment(std::vector<std::string> const& environment);

// Ours, as "NAME=value".
[[nodiscard]] std::vector<std::string> own_environment();

} // namespace exo::node
