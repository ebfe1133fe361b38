// SPDX-License-Identifier: Apache-2.0
//
// A program in a process of its own: ggml ends its process when it dislikes a model, and keeps
// tables for as long as a process lives. The caller has one thread and has not used ggml.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <functional>
#include <sys/types.h>

namespace exo::architectures {

class Child {
public:
    using Program = std::function<Result<Bytes>()>;

    explicit Child(Program const& program);
    ~Child();

    Child(Child&& other) noexcept;
    Child(Child const&) = delete;
    Child& operator=(Child const&) = delete;

    // What the program gave; an error also if the process ended otherwise, with ggml's last words.
    [[nodiscard]] Result<Bytes> wait();

private:
    pid_t process_ = -1;
    int descriptor_ = -1;
};

} // namespace exo::architectures
