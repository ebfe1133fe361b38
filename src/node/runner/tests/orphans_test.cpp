// SPDX-License-Identifier: Apache-2.0
#include "base/entropy.hpp"
#include "node/runner/orphans.hpp"
#include "node/runner/spawn.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace exo::node {
namespace {

class OrphansTest : public testing::Test {
protected:
    ~OrphansTest() override { std::filesystem::remove_all(directory); }

    // A child that does nothing until it is killed.
    static int sleeper() {
        auto line = make_socket_pair();
        auto output = make_pipe();
        Spawn const what{.executable = "/bin/sleep", .arguments = {"1000"}};
        auto const pid = spawn(what, std::move(line->theirs), std::move(output->theirs));
        EXPECT_TRUE(pid);
        return *pid;
    }

    static int signal_of_end(int pid) {
        int status = 0;
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }

    std::filesystem::path directory =
        std::filesystem::path(testing::TempDir()) / ("orphans-" + random_uuid());
    Orphans orphans{directory};
};

TEST_F(OrphansTest, what_an_earlier_boot_left_is_killed) {
    int const pid = sleeper();
    ASSERT_TRUE(orphans.add(pid));
    // The test is the parent, as init would be: it reaps meanwhile.
    int signal = 0;
    std::thread reaper([&] { signal = signal_of_end(pid); });
    auto const ended = Orphans(directory).end_all(10s);
    reaper.join();
    ASSERT_TRUE(ended);
    EXPECT_EQ(*ended, std::vector<int>{pid});
    EXPECT_EQ(signal, SIGKILL);
    EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST_F(OrphansTest, a_pid_that_is_now_another_process_is_left_alone) {
    int const pid = sleeper();
    ASSERT_TRUE(orphans.add(pid));
    std::ofstream(directory / (std::to_string(pid) + ".runner")) << "another start\n";
    auto const ended = Orphans(directory).end_all(1s);
    ASSERT_TRUE(ended);
    EXPECT_TRUE(ended->empty());
    EXPECT_TRUE(process_start_time(pid));
    kill(pid, SIGKILL);
    EXPECT_EQ(signal_of_end(pid), SIGKILL);
}

TEST_F(OrphansTest, a_reaped_child_is_forgotten) {
    int const pid = sleeper();
    ASSERT_TRUE(orphans.add(pid));
    orphans.remove(pid);
    EXPECT_TRUE(Orphans(directory).end_all(1s)->empty());
    kill(pid, SIGKILL);
    EXPECT_EQ(signal_of_end(pid), SIGKILL);
}

TEST_F(OrphansTest, no_directory_and_foreign_files_are_no_error) {
    EXPECT_TRUE(orphans.end_all(1s)->empty());
    std::filesystem::create_directories(directory);
    for (auto const* name : {"1.runner", "-5.runner", "x.runner", "12.txt", ".runner", "12"}) {
        std::ofstream(directory / name) << "x\n";
    }
    EXPECT_TRUE(orphans.end_all(1s)->empty());
}

TEST_F(OrphansTest, an_ended_process_has_no_start_time) {
    int const pid = sleeper();
    EXPECT_TRUE(process_start_time(pid));
    EXPECT_EQ(*process_start_time(pid), *process_start_time(pid));
    kill(pid, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(process_start_time(pid)) << "a zombie";
    EXPECT_EQ(signal_of_end(pid), SIGKILL);
    EXPECT_FALSE(process_start_time(pid));
}

TEST(Spawn, an_environment_is_cut_to_what_a_runner_may_know) {
    auto const environment = runner_environment({
        "PATH=/bin",
        "HOME=/root",
        "CUDA_VISIBLE_DEVICES=1",
        "LLAMA_SET_ROWS=0",
        "GGML_SCHED_DEBUG=2",
        "GGML_VK_VISIBLE_DEVICES=0",
        "SECRET=x",
        "PATHS=y",
        "EMPTY",
    });
    std::vector<std::string> const expected{
        "PATH=/bin",
        "HOME=/root",
        "CUDA_VISIBLE_DEVICES=1",
        "GGML_VK_VISIBLE_DEVICES=0",
        "GGML_NO_BACKTRACE=1",
    };
    EXPECT_EQ(environment, expected);
}

#ifdef __linux__
TEST(Spawn, a_child_does_not_outlive_its_node) {
    int pid = 0;
    std::thread([&] { // Its end is the node's.
        auto line = make_socket_pair();
        auto output = make_pipe();
        Spawn const what{.executable = "/bin/sleep", .arguments = {"1000"}};
        pid = *spawn(what, std::move(line->theirs), std::move(output->theirs));
    })
        .join();
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
}
#endif

} // namespace
} // namespace exo::node
