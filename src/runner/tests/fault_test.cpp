// SPDX-License-Identifier: Apache-2.0
//
// What happens to an instance when one of its ranks, or the connection with it, fails: real
// processes, in both modes, while loading, in a prompt and in an answer. Always the same: all other
// ranks end within fault_limit, by themselves, with exit code 1 and a Fault that says which rank.
#include "collective/tcp/socket.hpp"
#include "runner/tests/real_ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <poll.h>
#include <thread>

namespace exo::runner {
namespace {

// A silent rank is lost after 6 beats of 500 ms, and a goodbye takes 10 s at most; the rest is for
// a machine that is busy with other things.
constexpr Duration fault_limit = 60s;
// Shorter than the time in which a rank must beat (3 s), with time to spare for a busy machine.
constexpr Duration short_pause = 1s;

struct Case {
    model::Sharding sharding;
    std::uint32_t ranks;
};

std::string name_of(testing::TestParamInfo<Case> const& row) {
    bool const tensor = row.param.sharding == model::Sharding::tensor;
    return (tensor ? "tensor_" : "pipeline_") + std::to_string(row.param.ranks);
}

struct End {
    int code = -1;
    std::string fault;
};

// Reads to the end of what a rank says.
End end_of(LocalRanks& ranks, std::uint32_t rank) {
    End end;
    auto const start = std::chrono::steady_clock::now();
    while (auto message = ranks.receive(rank, fault_limit)) {
        if (!*message) {
            ADD_FAILURE() << "rank " << rank << " hangs";
            ranks.kill(rank);
            break;
        }
        if (auto const* fault = std::get_if<ipc::Fault>(&**message)) {
            end.fault = fault->message;
        }
    }
    end.code = ranks.wait(rank);
    EXPECT_LT(std::chrono::steady_clock::now() - start, fault_limit) << "rank " << rank;
    return end;
}

// All but the lost one end with a reason that names it.
void expect_fault_of_all_others(LocalRanks& ranks, std::uint32_t lost) {
    auto const name = "rank " + std::to_string(lost);
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        if (rank != lost) {
            auto const end = end_of(ranks, rank);
            EXPECT_EQ(end.code, 1) << "rank " << rank << ": " << end.fault;
            EXPECT_NE(end.fault.find(name), std::string::npos) << end.fault;
        }
    }
}

template <class Status>
bool has_status(ipc::FromRunner const& message) {
    auto const* const changed = std::get_if<ipc::StatusChanged>(&message);
    return changed != nullptr && std::holds_alternative<Status>(changed->status);
}

// Waits until the rank says that it does this now.
template <class Status>
void await(LocalRanks& ranks, std::uint32_t rank) {
    while (true) {
        auto const message = ranks.receive(rank, message_limit);
        ASSERT_TRUE(message) << message.error().text();
        ASSERT_TRUE(*message) << "rank " << rank << " is silent";
        if (has_status<Status>(**message)) {
            return;
        }
    }
}

model::GenerationRequest long_prompt() {
    std::string text;
    for (int i = 0; i < 250; ++i) {
        text += "The fox went down to the river. ";
    }
    return request("long prompt", text);
}

ipc::Start start_of(Case const& row) {
    auto start = start_for(row.sharding, row.ranks);
    start.context_length = 4096;
    return start;
}

// Asks for a story and waits until it has begun.
void begin_story(LocalRanks& ranks, Listener& listener) {
    ASSERT_TRUE(ranks.send(0, ipc::Generate{story()}));
    while (listener.answers["story"].deltas < 3 && listener.next()) {
    }
}

// Stands between a rank and those that dial it: passes on what they say, until the test wants
// otherwise.
class Wire {
public:
    // Dials `port` for whoever connects.
    explicit Wire(std::uint16_t port)
        : port_(port)
        , listener_(*collective::listen_on_any_port())
        , thread_([this] { run(); }) {}

    ~Wire() {
        stopping_ = true;
        thread_.join();
    }

    Wire(Wire const&) = delete;
    Wire& operator=(Wire const&) = delete;

    [[nodiscard]] std::uint16_t port() const {
        return collective::Address::of_self(listener_).port();
    }

    // Closes both sides of all connections.
    void cut() {
        std::lock_guard const lock(mutex_);
        ends_.clear();
    }

    // Something between what the ranks say, to the one that was dialled.
    void say(Bytes const& bytes) {
        std::lock_guard const lock(mutex_);
        for (std::size_t i = 1; i < ends_.size(); i += 2) {
            (void)collective::send_some(ends_[i], bytes);
        }
    }

private:
    static constexpr int look_ms = 10;

    void run() {
        while (!stopping_) {
            std::vector<pollfd> polled{{listener_.descriptor(), POLLIN, 0}};
            {
                std::lock_guard const lock(mutex_);
                for (auto const& end : ends_) {
                    polled.push_back({end.descriptor(), POLLIN, 0});
                }
            }
            (void)poll(polled.data(), polled.size(), look_ms);
            std::lock_guard const lock(mutex_);
            if (auto accepted = collective::accept_one(listener_)) {
                auto const there = collective::Address::parse("127.0.0.1", port_);
                ends_.push_back(std::move(*accepted));
                ends_.push_back(*collective::start_connect(*there));
                pollfd connecting{ends_.back().descriptor(), POLLOUT, 0};
                (void)poll(&connecting, 1, 1000);
            }
            for (std::size_t i = 0; i < ends_.size(); ++i) {
                pass_on(ends_[i], ends_[i ^ 1]);
            }
        }
    }

    static void pass_on(collective::Socket const& from, collective::Socket const& to) {
        Bytes bytes(64 * 1024);
        auto const count = collective::receive_some(from, bytes);
        if (!count || !*count) {
            return;
        }
        if (**count == 0) {
            collective::shut_down_writing(to);
            return;
        }
        for (auto rest = BytesView(bytes).first(**count); !rest.empty();) {
            auto const sent = collective::send_some(to, rest);
            if (!sent) {
                return;
            }
            rest = rest.subspan(*sent);
        }
    }

    std::uint16_t port_;
    collective::Socket listener_;
    std::atomic<bool> stopping_ = false;
    std::mutex mutex_;
    std::vector<collective::Socket> ends_; // The one that dialled, the one that was dialled, ...
    std::thread thread_;
};

class FaultTest : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
    }

    // Ready, with the connections of rank 0 through a wire of ours.
    std::unique_ptr<LocalRanks> ready_over_wire() {
        auto ranks = spawn(start_of(GetParam()));
        auto endpoints = ranks->await_endpoints(ready_limit);
        EXPECT_TRUE(endpoints);
        wire = std::make_unique<Wire>(endpoints->front().port);
        endpoints->front().port = wire->port();
        EXPECT_TRUE(ranks->introduce(std::move(*endpoints)));
        for (std::uint32_t rank = 0; rank < ranks->size(); ++rank) {
            await<model::RunnerReady>(*ranks, rank);
        }
        return ranks;
    }

    std::unique_ptr<Wire> wire;
};

TEST_P(FaultTest, a_rank_that_dies_while_loading_ends_all) {
    auto ranks = spawn(start_of(GetParam()));
    ASSERT_TRUE(ranks->introduce(ready_limit));
    std::uint32_t const last = ranks->size() - 1;
    await<model::RunnerConnected>(*ranks, last);
    ranks->kill(last);
    expect_fault_of_all_others(*ranks, last);
}

TEST_P(FaultTest, a_rank_that_dies_in_a_prompt_ends_all) {
    auto ranks = ready(start_of(GetParam()));
    ASSERT_TRUE(ranks->send(0, ipc::Generate{long_prompt()}));
    await<model::RunnerRunning>(*ranks, 0);
    ranks->kill(1);
    expect_fault_of_all_others(*ranks, 1);
}

TEST_P(FaultTest, a_rank_that_dies_in_an_answer_ends_all) {
    auto ranks = ready(start_of(GetParam()));
    Listener listener(*ranks);
    begin_story(*ranks, listener);
    ranks->kill(1);
    auto const& answer = listener.until_ended("story");
    ASSERT_TRUE(answer.failed.has_value());
    EXPECT_EQ(answer.failed->code, "unavailable");
    EXPECT_NE(answer.failed->message.find("rank 1"), std::string::npos) << answer.failed->message;
    expect_fault_of_all_others(*ranks, 1);
}

TEST_P(FaultTest, when_rank_0_dies_the_others_end) {
    auto ranks = ready(start_of(GetParam()));
    Listener listener(*ranks);
    begin_story(*ranks, listener);
    ranks->kill(0);
    expect_fault_of_all_others(*ranks, 0);
}

TEST_P(FaultTest, a_rank_that_stands_still_is_lost_and_ends_too_when_it_goes_on) {
    auto ranks = ready(start_of(GetParam()));
    Listener listener(*ranks);
    begin_story(*ranks, listener);
    ranks->suspend(1);
    expect_fault_of_all_others(*ranks, 1);
    ranks->resume(1);
    auto const end = end_of(*ranks, 1);
    EXPECT_EQ(end.code, 1);
    // Whoever of the others it hears first says that it was given up.
    bool const names_another = end.fault.find("rank 0") != std::string::npos ||
                               end.fault.find("rank 2") != std::string::npos;
    EXPECT_TRUE(names_another) << end.fault;
}

TEST_P(FaultTest, a_rank_that_stands_still_in_a_prompt_is_lost_too) {
    auto ranks = ready(start_of(GetParam()));
    ASSERT_TRUE(ranks->send(0, ipc::Generate{long_prompt()}));
    await<model::RunnerRunning>(*ranks, 0);
    ranks->suspend(1);
    expect_fault_of_all_others(*ranks, 1);
}

TEST_P(FaultTest, a_short_pause_of_a_rank_changes_nothing) {
    auto ranks = ready(start_of(GetParam()));
    auto wanted = story("undisturbed");
    wanted.max_tokens = 40;
    auto const expected = ask(*ranks, wanted);
    Listener listener(*ranks);
    wanted.task_id = model::TaskId("story");
    ASSERT_TRUE(ranks->send(0, ipc::Generate{wanted}));
    while (listener.answers["story"].deltas < 3 && listener.next()) {
    }
    ranks->suspend(1);
    std::this_thread::sleep_for(short_pause);
    ranks->resume(1);
    auto const& answer = listener.until_ended("story");
    EXPECT_TRUE(answer.finished.has_value());
    EXPECT_EQ(answer.text, expected.text);
    shut_down(*ranks);
}

TEST_P(FaultTest, a_closed_socket_ends_all) {
    auto ranks = ready_over_wire();
    Listener listener(*ranks);
    begin_story(*ranks, listener);
    wire->cut();
    for (std::uint32_t rank = 0; rank < ranks->size(); ++rank) {
        auto const end = end_of(*ranks, rank);
        EXPECT_EQ(end.code, 1) << "rank " << rank;
        EXPECT_NE(end.fault.find("rank "), std::string::npos) << end.fault;
    }
}

TEST_P(FaultTest, garbage_between_what_ranks_say_ends_all) {
    auto ranks = ready_over_wire();
    Listener listener(*ranks);
    begin_story(*ranks, listener);
    wire->say(Bytes(1000, 0xee));
    auto const end = end_of(*ranks, 0);
    EXPECT_EQ(end.code, 1);
    EXPECT_NE(end.fault.find("sent bytes that cannot be read"), std::string::npos) << end.fault;
    for (std::uint32_t rank = 1; rank < ranks->size(); ++rank) {
        EXPECT_EQ(end_of(*ranks, rank).code, 1) << "rank " << rank;
    }
}

TEST_P(FaultTest, strangers_at_the_port_do_no_harm_before_the_group_forms_nor_after) {
    auto ranks = spawn(start_of(GetParam()));
    auto const endpoints = ranks->await_endpoints(ready_limit);
    ASSERT_TRUE(endpoints);
    auto const address = collective::Address::parse("127.0.0.1", endpoints->front().port);
    std::vector<collective::Socket> strangers;
    for (int i = 0; i < 40; ++i) { // More than a rank hears at a time.
        auto stranger = collective::start_connect(*address);
        ASSERT_TRUE(stranger);
        pollfd polled{stranger->descriptor(), POLLOUT, 0};
        ASSERT_EQ(poll(&polled, 1, 10'000), 1);
        (void)collective::send_some(*stranger, Bytes(static_cast<std::size_t>(i) * 50, 0x42));
        strangers.push_back(std::move(*stranger));
    }
    ASSERT_TRUE(ranks->introduce(*endpoints));
    for (std::uint32_t rank = 0; rank < ranks->size(); ++rank) {
        await<model::RunnerReady>(*ranks, rank);
    }
    // The port is closed now.
    auto const late = collective::start_connect(*address);
    pollfd polled{late ? late->descriptor() : -1, POLLOUT, 0};
    EXPECT_TRUE(!late || (poll(&polled, 1, 10'000) == 1 && !collective::connect_result(*late)));
    EXPECT_EQ(ask(*ranks, capital()).text, "The capital of France is Paris.");
    shut_down(*ranks);
}

INSTANTIATE_TEST_SUITE_P(
    Ranks,
    FaultTest,
    testing::Values(
        Case{model::Sharding::pipeline, 2},
        Case{model::Sharding::pipeline, 3},
        Case{model::Sharding::tensor, 2},
        Case{model::Sharding::tensor, 3}
    ),
    name_of
);

} // namespace
} // namespace exo::runner
