// SPDX-License-Identifier: Apache-2.0
//
// llama.cpp says why it failed in its log only. While a LogCapture lives, the lines go to our log
// (errors and warnings) and the last error is kept.
#pragma once

#include <ggml.h>

#include <mutex>
#include <string>

namespace exo::engine {

class LogCapture {
public:
    LogCapture();
    ~LogCapture();

    LogCapture(LogCapture const&) = delete;
    LogCapture& operator=(LogCapture const&) = delete;

    // The errors since the last call, joined; without line ends.
    [[nodiscard]] std::string take_errors();

private:
    static void receive(ggml_log_level level, char const* text, void* self);

    std::mutex mutex_; // ggml logs from its own threads too.
    std::string errors_;
    ggml_log_callback former_ = nullptr;
    void* former_data_ = nullptr;
};

} // namespace exo::engine
