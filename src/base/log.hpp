// SPDX-License-Identifier: Apache-2.0
//
// The log: one line an event, with the area it comes from. Never prompts, answers or secrets.
//
//     log::info("net", "connected to {} at {}", peer, address);
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace exo::log {

enum class Level { trace, debug, info, warning, error };

// Where lines go: standard error, and `file` when not empty (rotated: 5 files of 10 MiB). Called
// once, by main, before other threads start; without it, warnings and errors go to stderr.
void start(Level level, std::string const& file);

[[nodiscard]] bool enabled(Level level);
void write(Level level, std::string_view area, std::string_view text);

template <class... Args>
void at(Level level, std::string_view area, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(level)) {
        write(level, area, fmt::vformat(format, fmt::make_format_args(args...)));
    }
}

template <class... Args>
void trace(std::string_view area, fmt::format_string<Args...> format, Args&&... args) {
    at(Level::trace, area, format, std::forward<Args>(args)...);
}

template <class... Args>
void debug(std::string_view area, fmt::format_string<Args...> format, Args&&... args) {
    at(Level::debug, area, format, std::forward<Args>(args)...);
}

template <class... Args>
void info(std::string_view area, fmt::format_string<Args...> format, Args&&... args) {
    at(Level::info, area, format, std::forward<Args>(args)...);
}

template <class... Args>
void warning(std::string_view area, fmt::format_string<Args...> format, Args&&... args) {
    at(Level::warning, area, format, std::forward<Args>(args)...);
}

template <class... Args>
void error(std::string_view area, fmt::format_string<Args...> format, Args&&... args) {
    at(Level::error, area, format, std::forward<Args>(args)...);
}

} // namespace exo::log
