// SPDX-License-Identifier: Apache-2.0
//
// What loading costs real rank processes, and models in several files. Needs the test model.
#include "engine/engine.hpp"
#include "engine/load/tests/gguf_files.hpp"
#include "engine/tests/test_model.hpp"
#include "runner/local_ranks.hpp"

#include <nlohmann/json.hpp>

namespace exo::runner {
namespace {

using engine::TemporaryFolder;
using engine::test_model;
using model::Sharding;

// Limits against hangs, not for speed: a machine may be busy with anything.
constexpr Duration ready_limit = 2min;
constexpr Duration message_limit = 2min;

ipc::Start start_for(std::vector<std::string> paths, Sharding sharding, std::uint32_t ranks) {
    ipc::Start start;
    start.instance_id = model::InstanceId("instance");
    start.runner_id = model::RunnerId("runner");
    start.sharding = sharding;
    start.world_size = ranks;
    start.model_paths = std::move(paths);
    start.context_length = 256;
    start.micro_batch = 16;
    start.threads = 1;
    return start;
}

std::unique_ptr<LocalRanks> ready(ipc::Start const& start) {
    auto ranks = LocalRanks::spawn({EXO_RUNNER_ALONE, "runner"}, start);
    EXPECT_TRUE(ranks);
    auto const connected = (*ranks)->connect(ready_limit);
    EXPECT_TRUE(connected) << connected.error().text();
    return std::move(*ranks);
}

void end(LocalRanks& ranks) {
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_TRUE(ranks.send(rank, ipc::Shutdown{}));
    }
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        EXPECT_EQ(ranks.wait(rank), 0);
    }
}

class LoadingTest : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
    }

    TemporaryFolder folder_;
};

// ---- memory

// "VmHWM", the greatest amount so far, or "VmRSS", the present one.
std::uint64_t memory_of(pid_t process, std::string const& what) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(what + ":")) {
            return std::stoull(line.substr(what.size() + 1)) << 10;
        }
    }
    return 0;
}

// What the probe says that each rank takes.
std::vector<std::uint64_t> needs_of(ipc::Start const& start) {
    auto const report = engine::probe(
        {.model_paths = start.model_paths,
         .sharding = start.sharding,
         .context_length = start.context_length,
         .micro_batch = start.micro_batch,
         .threads = 1},
        start.world_size,
        /*with_ranges=*/false
    );
    EXPECT_TRUE(report) << report.error().text();
    auto const json = nlohmann::json::parse(*report);
    std::vector<std::uint64_t> needs;
    for (auto const& rank : json["ranks"]) {
        needs.push_back(
            rank["weight_bytes"].get<std::uint64_t>() + rank["compute_bytes"].get<std::uint64_t>() +
            rank["kv_bytes_per_token"].get<std::uint64_t>() * start.context_length
        );
    }
    return needs;
}

// 0.9 GB of zeros, which are in no file: large beside the process itself and its vocabulary, which
// are some 35 MB. Weights are packed, so at some time each is in memory twice.
TEST_F(LoadingTest, no_rank_ever_takes_more_than_its_slice_its_cache_its_buffers_and_a_tenth) {
    auto const path = folder_ / "large.gguf";
    engine::ModelShape shape;
    shape.layers = 8;
    shape.width = 4096;
    shape.heads = 32;
    shape.kv_heads = 8;
    shape.feed_forward = 8192;
    shape.tokenizer_of = test_model();
    engine::ModelWriter(shape).write_sparse(path);
    for (auto const& [sharding, size] :
         {std::pair(Sharding::pipeline, 1u),
          std::pair(Sharding::pipeline, 2u),
          std::pair(Sharding::tensor, 2u)}) {
        auto const start = start_for({path}, sharding, size);
        auto const needs = needs_of(start);
        auto ranks = ready(start);
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            auto const peak = memory_of(ranks->process(rank), "VmHWM");
            auto const steady = memory_of(ranks->process(rank), "VmRSS");
            EXPECT_GT(steady, needs[rank] / 2) << "this measures nothing";
            EXPECT_LE(peak, needs[rank] + needs[rank] / 10)
                << "rank " << rank << " of " << size << ": " << peak << " bytes, of which "
                << steady << " remain; the probe says " << needs[rank];
        }
        end(*ranks);
    }
}

// ---- a model in several files

std::string answer_of(LocalRanks& ranks) {
    model::GenerationRequest request;
    request.task_id = model::TaskId("task");
    request.messages = {{.role = "user", .content = "Tell me the capital of France."}};
    request.sampling.temperature = 0.0;
    request.max_tokens = 16;
    EXPECT_TRUE(ranks.send(0, ipc::Generate{request}));
    std::string text;
    for (;;) {
        auto const message = ranks.receive(0, message_limit);
        if (!message || !*message) {
            ADD_FAILURE() << "rank 0 says nothing";
            return text;
        }
        auto const* const generated = std::get_if<ipc::Generated>(&**message);
        if (generated == nullptr) {
            continue;
        }
        if (auto const* const delta = std::get_if<model::TokenDelta>(&generated->event)) {
            text += delta->text;
        } else if (std::holds_alternative<model::GenerationFinished>(generated->event)) {
            return text;
        }
    }
}

TEST_F(LoadingTest, a_model_in_parts_answers_like_the_whole) {
    auto const parts = engine::write_parts(test_model(), folder_ / "parts", 3);
    for (auto const& [sharding, size] :
         {std::pair(Sharding::pipeline, 1u),
          std::pair(Sharding::pipeline, 2u),
          std::pair(Sharding::tensor, 2u)}) {
        auto of_whole = ready(start_for({test_model()}, sharding, size));
        auto const expected = answer_of(*of_whole);
        EXPECT_EQ(expected, "The capital of France is Paris.");
        end(*of_whole);
        auto of_parts = ready(start_for(parts, sharding, size));
        EXPECT_EQ(answer_of(*of_parts), expected);
        end(*of_parts);
    }
    auto of_first = ready(start_for({parts[0]}, Sharding::pipeline, 1));
    EXPECT_EQ(answer_of(*of_first), "The capital of France is Paris.");
    end(*of_first);
}

TEST_F(LoadingTest, a_missing_part_is_a_fault_that_names_it) {
    auto const parts = engine::write_parts(test_model(), folder_ / "parts", 2);
    std::filesystem::remove(parts[1]);
    auto ranks =
        LocalRanks::spawn({EXO_RUNNER_ALONE, "runner"}, start_for(parts, Sharding::pipeline, 1));
    ASSERT_TRUE(ranks);
    auto const connected = (*ranks)->connect(ready_limit);
    ASSERT_FALSE(connected);
    EXPECT_NE(connected.error().text().find(parts[1]), std::string::npos)
        << connected.error().text();
    EXPECT_EQ((*ranks)->wait(0), 1);
}

} // namespace
} // namespace exo::runner
