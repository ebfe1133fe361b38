// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include "base/text.hpp"

#include <memory>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <vector>

namespace exo::log {
namespace {

constexpr std::size_t file_bytes_max = 10 * 1024 * 1024;
constexpr std::size_t files_max = 5;

spdlog::level::level_enum spdlog_level(Level level) {
    switch (level) {
    case Level::trace:
        return spdlog::level::trace;
    case Level::debug:
        return spdlog::level::debug;
    case Level::info:
        return spdlog::level::info;
    case Level::warning:
        return spdlog::level::warn;
    case Level::error:
        return spdlog::level::err;
    }
    return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> make_logger(Level level, std::string const& file) {
    std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
    if (!file.empty()) {
        sinks.push_back(
            std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, file_bytes_max, files_max)
        );
    }
    auto logger = std::make_shared<spdlog::logger>("exo", sinks.begin(), sinks.end());
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%-5!l%$ %v");
    logger->set_level(spdlog_level(level));
    logger->flush_on(spdlog::level::info);
    return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
    static auto the_logger = make_logger(Level::warning, "");
    return the_logger;
}

} // namespace

void start(Level level, std::string const& file) {
    logger() = make_logger(level, file);
}

bool enabled(Level level) {
    return logger()->should_log(spdlog_level(level));
}

void write(Level level, std::string_view area, std::string_view text) {
    logger()->log(spdlog_level(level), "{}: {}", area, in_one_line(std::string(text)));
}

} // namespace exo::log
