// SPDX-License-Identifier: Apache-2.0
//
// Real runners for tests: started, asked, and followed as a node does it.
#pragma once

#include "base/text.hpp"
#include "engine/tests/test_model.hpp"
#include "runner/local_ranks.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

namespace exo::runner {

constexpr Duration ready_limit = 2min;
// Limits against hangs, not for speed: a machine may be busy with anything.
constexpr Duration message_limit = 2min;

using engine::test_model;

inline ipc::Start start_for(model::Sharding sharding, std::uint32_t ranks) {
    return {
        .instance_id = model::InstanceId("instance"),
        .runner_id = model::RunnerId("runner"),
        .sharding = sharding,
        .world_size = ranks,
        .model_paths = {test_model()},
        .context_length = 512,
        .threads = 1,
    };
}

inline std::unique_ptr<LocalRanks> spawn(ipc::Start const& start) {
    auto ranks = LocalRanks::spawn({EXO_RUNNER_ALONE, "runner"}, start);
    EXPECT_TRUE(ranks.has_value());
    return std::move(*ranks);
}

inline std::unique_ptr<LocalRanks> ready(ipc::Start const& start) {
    auto ranks = spawn(start);
    auto const connected = ranks->connect(ready_limit);
    EXPECT_TRUE(connected.has_value()) << connected.error().text();
    return ranks;
}

inline model::GenerationRequest request(std::string const& id, std::string const& text) {
    model::GenerationRequest made;
    made.task_id = model::TaskId(id);
    made.messages = {{.role = "user", .content = text}};
    made.sampling.temperature = 0.0;
    return made;
}

inline model::GenerationRequest capital(std::string const& id = "capital") {
    return request(id, "Tell me the capital of France.");
}

// A question with a long answer.
inline model::GenerationRequest story(std::string const& id = "story") {
    return request(id, "Tell me a long story about a fox and a river.");
}

// How far a prompt was, and what all answers together had said by then.
struct Progress {
    std::uint32_t processed = 0;
    std::uint32_t total = 0;
    std::uint64_t deltas_of_all = 0;
};

struct Answer {
    std::string text;
    std::vector<Progress> progress;
    std::uint64_t deltas = 0;
    bool ended = false;
    std::optional<model::GenerationFinished> finished;
    std::optional<model::GenerationFailed> failed;
};

// Follows rank 0 until all of these tasks have ended.
class Listener {
public:
    explicit Listener(LocalRanks& ranks)
        : ranks_(ranks) {}

    // The next message, which must come. False when rank 0 has ended.
    bool next() {
        auto message = ranks_.receive(0, message_limit);
        if (!message) {
            return false;
        }
        EXPECT_TRUE(message->has_value()) << "rank 0 is silent";
        if (!*message) {
            return false;
        }
        if (auto* const generated = std::get_if<ipc::Generated>(&**message)) {
            note(answers[generated->task_id.value()], generated->event);
        } else if (auto* const fault = std::get_if<ipc::Fault>(&**message)) {
            fault_text = fault->message;
        }
        return true;
    }

    Answer const& until_ended(std::string const& task) {
        while (!answers[task].ended && next()) {
        }
        return answers[task];
    }

    std::map<std::string, Answer> answers;
    std::string fault_text;

private:
    void note(Answer& answer, model::GenerationEvent const& event) {
        EXPECT_FALSE(answer.ended) << "an event after the last one";
        if (auto const* delta = std::get_if<model::TokenDelta>(&event)) {
            EXPECT_EQ(delta->number, answer.deltas++);
            EXPECT_TRUE(is_utf8(delta->text));
            answer.text += delta->text;
            ++deltas_;
        } else if (auto const* progress = std::get_if<model::PrefillProgress>(&event)) {
            answer.progress.push_back({progress->processed_tokens, progress->total_tokens, deltas_}
            );
        } else if (auto const* finished = std::get_if<model::GenerationFinished>(&event)) {
            answer.finished = *finished;
            answer.ended = true;
        } else if (auto const* failed = std::get_if<model::GenerationFailed>(&event)) {
            answer.failed = *failed;
            answer.ended = true;
        }
    }

    LocalRanks& ranks_;
    std::uint64_t deltas_ = 0; // Of all answers.
};

inline Answer ask(LocalRanks& ranks, model::GenerationRequest const& wanted) {
    EXPECT_TRUE(ranks.send(0, ipc::Generate{wanted}).has_value());
    Listener listener(ranks);
    return listener.until_ended(wanted.task_id.value());
}

inline void shut_down(LocalRanks& ranks) {
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_TRUE(ranks.send(rank, ipc::Shutdown{}).has_value());
    }
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank;
    }
}

class RunnerTest : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
    }
};

} // namespace exo::runner
