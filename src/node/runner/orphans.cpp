// SPDX-License-Identifier: Apache-2.0
#include "node/runner/orphans.hpp"

#include "base/log.hpp"
#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>
#ifdef __APPLE__
#include <libproc.h>
#endif

namespace exo::node {
namespace {

constexpr Duration look_interval = 10ms;
// The name of a file is a pid; anything else in the directory is not ours.
constexpr std::string_view suffix = ".runner";

std::optional<int> pid_of(std::filesystem::path const& file) {
    auto const name = file.filename().string();
    if (!name.ends_with(suffix)) {
        return std::nullopt;
    }
    int pid = 0;
    char const* const end = name.data() + name.size() - suffix.size();
    auto const [rest, error] = std::from_chars(name.data(), end, pid);
    // 0 and 1 are never ours, and negative ones would address groups.
    return error == std::errc() && rest == end && pid > 1 ? std::optional(pid) : std::nullopt;
}

std::string content_of(std::filesystem::path const& file) {
    std::ifstream in(file);
    std::string text;
    std::getline(in, text);
    return text;
}

bool is_still(int pid, std::string const& start_time) {
    auto const now = process_start_time(pid);
    return now && *now == start_time;
}

Error no_process(int pid) {
    return Error(Errc::not_found, fmt::format("there is no process {}", pid));
}

} // namespace

#ifdef __APPLE__

Result<std::string> process_start_time(int pid) {
    proc_bsdinfo info{};
    if (proc_pidinfo(pid, PROC_PIDTBSDINFO, 0, &info, sizeof info) != sizeof info ||
        info.pbi_status == SZOMB) {
        return no_process(pid);
    }
    return fmt::format("{}.{:06}", info.pbi_start_tvsec, info.pbi_start_tvusec);
}

#else

Result<std::string> process_start_time(int pid) {
    auto const stat = content_of(fmt::format("/proc/{}/stat", pid));
    // The name, in parentheses, may contain anything; what follows it is numbers.
    auto const name_end = stat.rfind(')');
    if (name_end == std::string::npos) {
        return no_process(pid);
    }
    auto const fields = split(std::string_view(stat).substr(name_end + 1), ' ');
    constexpr std::size_t state = 1;        // Field 3 of the whole.
    constexpr std::size_t start_ticks = 20; // Field 22: since the machine's start.
    if (fields.size() <= start_ticks || fields[state] == "Z" || fields[state] == "X") {
        return no_process(pid);
    }
    return fmt::format("{} {}", content_of("/proc/sys/kernel/random/boot_id"), fields[start_ticks]);
}

#endif

std::filesystem::path Orphans::file_of(int pid) const {
    return directory_ / fmt::format("{}{}", pid, suffix);
}

Result<void> Orphans::add(int pid) {
    auto const start_time = process_start_time(pid);
    if (!start_time) {
        return {}; // It has ended already: nothing can be left of it.
    }
    std::error_code error;
    std::filesystem::create_directories(directory_, error);
    std::ofstream out(file_of(pid), std::ios::trunc);
    out << *start_time << '\n';
    out.close();
    if (!out) {
        return errno_error(fmt::format("cannot write {}", file_of(pid).string()));
    }
    return {};
}

void Orphans::remove(int pid) {
    std::error_code error;
    std::filesystem::remove(file_of(pid), error);
}

Result<std::vector<int>> Orphans::end_all(Duration limit) {
    struct Orphan {
        int pid;
        std::string start_time;
    };

    std::vector<Orphan> left;
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator(directory_, error)) {
        if (auto const pid = pid_of(entry.path())) {
            left.push_back({*pid, content_of(entry.path())});
        }
    }
    std::vector<int> ended;
    for (auto const& orphan : left) {
        if (is_still(orphan.pid, orphan.start_time)) {
            log::warning("runner", "killing runner {} of an earlier start of exo", orphan.pid);
            (void)kill(-orphan.pid, SIGKILL); // A runner leads its own group.
            (void)kill(orphan.pid, SIGKILL);
            ended.push_back(orphan.pid);
        }
    }
    auto const deadline = std::chrono::steady_clock::now() + limit;
    while (true) {
        std::erase_if(left, [&](Orphan const& orphan) {
            bool const gone = !is_still(orphan.pid, orphan.start_time);
            if (gone) {
                remove(orphan.pid);
            }
            return gone;
        });
        if (left.empty()) {
            return ended;
        }
        if (std::chrono::steady_clock::now() >= deadline) {
            break;
        }
        std::this_thread::sleep_for(look_interval);
    }
    std::vector<int> pids;
    std::ranges::transform(left, std::back_inserter(pids), &Orphan::pid);
    return Error(
        Errc::timed_out,
        fmt::format("runners of an earlier start do not end: processes {}", fmt::join(pids, ", "))
    );
}

} // namespace exo::node
