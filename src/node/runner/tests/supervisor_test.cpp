// SPDX-License-Identifier: Apache-2.0
//
// The supervisor with a real child process (fake_runner.cpp) that behaves well, or in each of the
// ways in which a runner can go wrong.
#include "base/entropy.hpp"
#include "node/runner/supervisor.hpp"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace exo::node {
namespace {

class SupervisorTest : public testing::Test {
protected:
    SupervisorTest() {
        options.executable = EXO_FAKE_RUNNER;
        options.shutdown_limit = 300ms;
        options.terminate_limit = 300ms;
        callbacks.on_listening = [this](std::uint16_t port) { ports.push_back(port); };
        callbacks.on_status = [this](model::RunnerStatus status) {
            statuses.push_back(std::move(status));
        };
        callbacks.on_event = [this](model::TaskId, model::GenerationEvent event) {
            events.push_back(std::move(event));
        };
        callbacks.on_exit = [this](ExitReport report) { exits.push_back(std::move(report)); };
    }

    Result<void> start(std::string const& how, std::uint32_t world_size = 1) {
        supervisor.emplace(context.get_executor(), options, callbacks);
        ipc::Start start;
        start.world_size = world_size;
        start.model_paths = {how};
        return supervisor->start(start);
    }

    // Runs the network thread until `condition`; false when that takes too long.
    template <class Condition>
    bool run_until(Condition condition) {
        auto const deadline = std::chrono::steady_clock::now() + 20s;
        while (!condition() && std::chrono::steady_clock::now() < deadline) {
            context.restart();
            context.run_one_for(50ms);
        }
        return condition();
    }

    bool run_until_exit() {
        return run_until([this] { return !exits.empty(); });
    }

    bool run_until_status() {
        return run_until([this] { return !statuses.empty(); });
    }

    asio::io_context context;
    SupervisorOptions options;
    SupervisorCallbacks callbacks;
    std::optional<RunnerSupervisor> supervisor;
    std::vector<std::uint16_t> ports;
    std::vector<model::RunnerStatus> statuses;
    std::vector<model::GenerationEvent> events;
    std::vector<ExitReport> exits;
};

bool is_gone(int pid) {
    return kill(pid, 0) != 0;
}

// ---- a runner that behaves

TEST_F(SupervisorTest, a_runner_starts_answers_and_ends_in_good_order) {
    ASSERT_TRUE(start("serve", 2));
    ASSERT_TRUE(run_until_status());
    EXPECT_EQ(ports, std::vector<std::uint16_t>{4242});
    ASSERT_TRUE(supervisor->connect(ipc::Connect{}));
    model::GenerationRequest request;
    request.task_id = model::TaskId("t");
    request.model = model::ModelId("m");
    ASSERT_TRUE(supervisor->generate(ipc::Generate{.request = request}));
    ASSERT_TRUE(supervisor->cancel(model::TaskId("u")));
    ASSERT_TRUE(run_until([this] { return events.size() == 3; }));
    EXPECT_TRUE(statuses.back() == model::RunnerStatus(model::RunnerReady{}));
    EXPECT_TRUE(events[0] == model::GenerationEvent(model::TokenDelta{0, "m", 1}));
    EXPECT_TRUE(std::holds_alternative<model::GenerationFinished>(events[1]));
    EXPECT_TRUE(std::holds_alternative<model::GenerationFailed>(events[2]));
    int const pid = *supervisor->pid();
    supervisor->stop("a test");
    supervisor->stop("again");
    ASSERT_TRUE(run_until_exit());
    EXPECT_TRUE(exits[0].orderly);
    EXPECT_EQ(exits[0].exit_code, 0);
    EXPECT_EQ(exits[0].message, "the runner ended as asked");
    EXPECT_TRUE(is_gone(pid));
    EXPECT_FALSE(supervisor->running());
    EXPECT_FALSE(supervisor->pid());
    EXPECT_EQ(supervisor->connect(ipc::Connect{}).error().code(), Errc::unavailable);
}

TEST_F(SupervisorTest, a_large_request_arrives_whole) {
    ASSERT_TRUE(start("serve"));
    model::GenerationRequest request;
    request.model = model::ModelId(std::string(5'000'000, 'x'));
    ASSERT_TRUE(supervisor->generate(ipc::Generate{.request = request}));
    ASSERT_TRUE(run_until([this] { return events.size() == 2; }));
    EXPECT_EQ(std::get<model::TokenDelta>(events[0]).text.size(), 5'000'000u);
}

TEST_F(SupervisorTest, a_child_gets_nothing_but_what_it_needs) {
    setenv("LLAMA_TEST", "1", 1);
    setenv("EXO_SECRET", "1", 1);
    // Not close-on-exec, as libraries do; not where the child has its own.
    int const opened = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int const leaked = fcntl(opened, F_DUPFD, 20);
    close(opened);
    ASSERT_GE(leaked, 20);
    (void)std::signal(SIGPIPE, SIG_IGN);
    ASSERT_TRUE(start("surroundings"));
    ASSERT_TRUE(run_until_status());
    auto const found = std::get<model::RunnerFailed>(statuses[0]).diagnostics;
    auto const has = [&](std::string const& text) {
        return std::ranges::find(found, text) != found.end();
    };
    EXPECT_TRUE(has("GGML_NO_BACKTRACE=1"));
    EXPECT_FALSE(has("LLAMA_TEST=1"));
    EXPECT_FALSE(has("EXO_SECRET=1"));
    EXPECT_TRUE(has("own group"));
    EXPECT_TRUE(has("default signals"));
    EXPECT_EQ(
        std::ranges::count_if(
            found, [](std::string const& text) { return text.starts_with("descriptor"); }
        ),
        4
    ) << "stdin, stdout, stderr and the line";
    close(leaked);
}

// ---- ends

TEST_F(SupervisorTest, a_crash_is_reported_with_the_last_lines) {
    ASSERT_TRUE(start("crash"));
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].signal, SIGSEGV);
    EXPECT_FALSE(exits[0].exit_code);
    EXPECT_FALSE(exits[0].orderly);
    EXPECT_NE(exits[0].message.find("signal 11"), std::string::npos) << exits[0].message;
    ASSERT_GE(exits[0].last_lines.size(), 20u);
    EXPECT_NE(std::ranges::find(exits[0].last_lines, "line 30"), exits[0].last_lines.end());
}

TEST_F(SupervisorTest, an_exit_is_reported_with_its_code_and_an_unfinished_line) {
    ASSERT_TRUE(start("exit"));
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].exit_code, 3);
    EXPECT_EQ(exits[0].message, "the runner ended with exit code 3");
    EXPECT_EQ(exits[0].last_lines, std::vector<std::string>{"before the end"});
}

TEST_F(SupervisorTest, a_fault_is_the_runners_own_word_for_its_end) {
    ASSERT_TRUE(start("fault"));
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].exit_code, 1);
    EXPECT_EQ(exits[0].message, "out of memory on rank 0");
}

TEST_F(SupervisorTest, a_kill_from_outside_is_reported) {
    ASSERT_TRUE(start("serve"));
    ASSERT_TRUE(run_until_status());
    kill(*supervisor->pid(), SIGKILL);
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].signal, SIGKILL);
    EXPECT_NE(exits[0].message.find("memory"), std::string::npos);
}

TEST_F(SupervisorTest, garbage_on_the_line_kills_the_runner) {
    for (auto const* how : {"garbage", "endless"}) {
        exits.clear();
        ASSERT_TRUE(start(how));
        ASSERT_TRUE(run_until_exit()) << how;
        EXPECT_EQ(exits[0].signal, SIGKILL);
        EXPECT_NE(exits[0].message.find("garbage"), std::string::npos) << exits[0].message;
    }
}

TEST_F(SupervisorTest, a_runner_that_does_not_answer_is_killed_after_its_time) {
    options.startup_limit = 200ms;
    ASSERT_TRUE(start("silent"));
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].signal, SIGKILL);
    EXPECT_EQ(exits[0].message, "the runner did not answer within 0.2 s of its start");
}

TEST_F(SupervisorTest, of_several_ranks_each_must_name_its_port_in_time) {
    options.startup_limit = 300ms;
    ASSERT_TRUE(start("deaf", 2)); // It says Idle, but no port.
    ASSERT_TRUE(run_until_exit());
    EXPECT_NE(exits[0].message.find("did not answer"), std::string::npos);
}

TEST_F(SupervisorTest, a_runner_that_ignores_shutdown_gets_sigterm) {
    ASSERT_TRUE(start("deaf"));
    ASSERT_TRUE(run_until_status());
    supervisor->stop("a test");
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].signal, SIGTERM);
    EXPECT_FALSE(exits[0].orderly);
}

TEST_F(SupervisorTest, a_runner_that_ignores_sigterm_gets_sigkill) {
    ASSERT_TRUE(start("stubborn"));
    ASSERT_TRUE(run_until_status());
    auto const asked = std::chrono::steady_clock::now();
    supervisor->stop("a test");
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].signal, SIGKILL);
    EXPECT_EQ(exits[0].message, "the runner did not end when it was asked");
    EXPECT_GE(std::chrono::steady_clock::now() - asked, 600ms);
}

TEST_F(SupervisorTest, a_runner_that_closes_its_line_and_stays_is_killed) {
    ASSERT_TRUE(start("close"));
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].signal, SIGKILL);
    EXPECT_EQ(exits[0].message, "the runner closed its line without ending");
}

TEST_F(SupervisorTest, what_a_runner_started_itself_does_not_hold_up_its_report) {
    ASSERT_TRUE(start("grandchild"));
    ASSERT_TRUE(run_until_exit());
    EXPECT_EQ(exits[0].exit_code, 4);
}

TEST_F(SupervisorTest, a_runner_that_does_not_read_is_killed_when_its_queue_is_full) {
    ASSERT_TRUE(start("deaf"));
    ASSERT_TRUE(run_until_status());
    model::GenerationRequest request;
    request.model = model::ModelId(std::string(20u << 20, 'x'));
    Result<void> sent;
    for (int i = 0; i < 20 && sent; ++i) {
        sent = supervisor->generate(ipc::Generate{.request = request});
    }
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code(), Errc::limit);
    ASSERT_TRUE(run_until_exit());
    EXPECT_NE(exits[0].message.find("hangs"), std::string::npos);
}

TEST_F(SupervisorTest, what_cannot_be_executed_is_an_error_with_the_reason) {
    options.executable = "/nowhere/exo";
    auto const result = start("serve");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::io);
    EXPECT_NE(result.error().text().find("/nowhere/exo"), std::string::npos);
    EXPECT_NE(result.error().text().find("No such file"), std::string::npos);
    EXPECT_FALSE(supervisor->running());
}

// ---- life of the supervisor

TEST_F(SupervisorTest, its_destruction_kills_and_reaps_without_a_report) {
    ASSERT_TRUE(start("stubborn"));
    ASSERT_TRUE(run_until_status());
    int const pid = *supervisor->pid();
    supervisor.reset();
    EXPECT_TRUE(is_gone(pid));
    context.restart();
    context.run_for(50ms);
    EXPECT_TRUE(exits.empty());
}

TEST_F(SupervisorTest, a_callback_may_destroy_it) {
    callbacks.on_status = [this](model::RunnerStatus) { supervisor.reset(); };
    ASSERT_TRUE(start("serve"));
    int const pid = *supervisor->pid();
    ASSERT_TRUE(run_until([this] { return !supervisor.has_value(); }));
    EXPECT_TRUE(is_gone(pid));
    context.restart();
    context.run_for(50ms);
    EXPECT_TRUE(exits.empty());
}

TEST_F(SupervisorTest, it_may_be_destroyed_by_the_report_of_the_end) {
    callbacks.on_exit = [this](ExitReport report) {
        exits.push_back(std::move(report));
        supervisor.reset();
    };
    ASSERT_TRUE(start("exit"));
    EXPECT_TRUE(run_until_exit());
}

TEST_F(SupervisorTest, a_child_is_written_down_while_it_runs) {
    options.orphans_directory =
        std::filesystem::path(testing::TempDir()) / ("supervisor-" + random_uuid());
    ASSERT_TRUE(start("serve"));
    auto const file = options.orphans_directory / (std::to_string(*supervisor->pid()) + ".runner");
    EXPECT_TRUE(std::filesystem::exists(file));
    supervisor->stop("a test");
    ASSERT_TRUE(run_until_exit());
    EXPECT_FALSE(std::filesystem::exists(file));
    std::filesystem::remove_all(options.orphans_directory);
}

TEST_F(SupervisorTest, many_end_at_once_and_all_are_reaped) {
    std::vector<std::unique_ptr<RunnerSupervisor>> all;
    for (int i = 0; i < 10; ++i) {
        all.push_back(std::make_unique<RunnerSupervisor>(context.get_executor(), options, callbacks)
        );
        ipc::Start start;
        start.model_paths = {i % 2 == 0 ? "serve" : "crash"};
        ASSERT_TRUE(all.back()->start(start));
        all.back()->stop("a test");
    }
    EXPECT_TRUE(run_until([this] { return exits.size() == 10; }));
}

} // namespace
} // namespace exo::node
