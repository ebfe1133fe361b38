// SPDX-License-Identifier: Apache-2.0
#include "runner/process.hpp"

#include "engine/engine.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <vector>

extern char** environ; // POSIX; declared in no header.

namespace exo::runner {
namespace {

std::atomic<LastWords> last_words_now{nullptr};

void on_abort(char const* reason) {
    if (auto const last_words = last_words_now.exchange(nullptr)) {
        std::string text(reason != nullptr ? reason : "no reason given");
        while (!text.empty() && text.back() == '\n') {
            text.pop_back();
        }
        last_words("ggml aborted: " + text);
    }
}

} // namespace

void prepare_process() {
    std::vector<std::string> unwanted;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        std::string_view const text(*entry);
        auto const name = text.substr(0, text.find('='));
        // Which GPUs there are changes nothing of what ranks must agree on.
        if ((name.starts_with("GGML_") || name.starts_with("LLAMA_")) &&
            name != "GGML_VK_VISIBLE_DEVICES") {
            unwanted.emplace_back(name);
        }
    }
    for (auto const& name : unwanted) {
        unsetenv(name.c_str());
    }
    setenv("GGML_NO_BACKTRACE", "1", /*overwrite=*/1);
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
}

void set_last_words(LastWords last_words) {
    last_words_now = last_words;
    engine::set_abort_handler(on_abort);
}

} // namespace exo::runner
