// SPDX-License-Identifier: Apache-2.0
//
// A "GPU" for tests: a ggml device with memory that nobody but its own functions can touch (its
// addresses are none of this process: a stray access ends the test), that has only the operations
// it is told to have, and that computes them with ggml's CPU kernels. As a GPU may, it computes
// nothing before it is waited for, and whoever touches its memory without having waited ends the
// test.
//
// Whatever a test asks of the code above it, it counts.
#pragma once

#include <ggml-backend-impl.h>
#include <ggml-cpp.h>

#include <functional>
#include <string>
#include <vector>

namespace exo::engine {

class ForeignDevice {
public:
    struct Options {
        std::string name = "foreign";
        bool starts = true;
        std::size_t memory_bytes = std::size_t{1} << 30;
        std::size_t buffer_bytes_max = SIZE_MAX; // Advice, as with real ones.
        // Null: everything.
        std::function<bool(ggml_tensor const* node)> supports;
        // Memory that the operation's kernel wants behind its result, and overwrites.
        ggml_op hungry_op = GGML_OP_NONE;
        std::size_t hunger_bytes = 0;
    };

    struct Counts {
        std::size_t nodes = 0;     // Computed, without mere views.
        std::size_t graphs = 0;    // Computed.
        std::size_t questions = 0; // supports_op
        std::size_t uploaded_bytes = 0;
        std::size_t downloaded_bytes = 0;
    };

    explicit ForeignDevice(Options options);
    ~ForeignDevice();

    ForeignDevice(ForeignDevice const&) = delete;
    ForeignDevice& operator=(ForeignDevice const&) = delete;

    [[nodiscard]] ggml_backend_dev_t device() { return &device_; }

    // So that it is found by its name. For good: ggml forgets no registry.
    void register_for_process() { ggml_backend_register(&registry_); }

    Counts counts;

    [[nodiscard]] std::size_t bytes_in_use() const { return bytes_in_use_; }

private:
    friend struct ForeignHooks;

    struct Buffer {
        ForeignDevice* device = nullptr;
        std::uint8_t* addresses = nullptr; // Reserved, without access.
        std::uint8_t* storage = nullptr;
        std::size_t bytes = 0;
    };

    Options options_;
    ggml_backend_reg registry_{};
    ggml_backend_device device_{};
    ggml_backend_buffer_type type_{};
    ggml_backend_ptr cpu_;
    std::vector<ggml_cgraph*> pending_;
    std::size_t buffers_ = 0;
    std::size_t bytes_in_use_ = 0;
};

} // namespace exo::engine
