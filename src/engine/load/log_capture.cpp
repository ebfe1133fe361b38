// SPDX-License-Identifier: Apache-2.0
#include "engine/load/log_capture.hpp"

#include "base/log.hpp"

#include <llama.h>

#include <utility>

namespace exo::engine {
namespace {

// Of a model that fails tensor by tensor, the first lines say enough.
constexpr std::size_t errors_bytes_max = 2000;

} // namespace

LogCapture::LogCapture() {
    llama_log_get(&former_, &former_data_);
    llama_log_set(receive, this);
}

LogCapture::~LogCapture() {
    llama_log_set(former_, former_data_);
}

std::string LogCapture::take_errors() {
    std::scoped_lock const lock(mutex_);
    return std::exchange(errors_, {});
}

void LogCapture::receive(ggml_log_level level, char const* text, void* self) {
    std::string line(text);
    while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) {
        line.pop_back();
    }
    if (line.empty()) {
        return;
    }
    if (level == GGML_LOG_LEVEL_ERROR) {
        auto& capture = *static_cast<LogCapture*>(self);
        std::scoped_lock const lock(capture.mutex_);
        if (capture.errors_.size() + line.size() < errors_bytes_max) {
            capture.errors_ += (capture.errors_.empty() ? "" : "; ") + line;
        }
        log::debug("llama", "{}", line); // Said in full by the error that it becomes.
    } else if (level == GGML_LOG_LEVEL_WARN) {
        log::debug("llama", "{}", line);
    } else {
        log::trace("llama", "{}", line);
    }
}

} // namespace exo::engine
