// SPDX-License-Identifier: Apache-2.0
//
// Real runners on a real model: what a node would see of them. Needs the test model.
#include "runner/tests/real_ranks.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>

namespace exo::runner {
namespace {

TEST_F(RunnerTest, one_rank_names_the_capital_of_france) {
    auto ranks = ready(start_for(model::Sharding::pipeline, 1));
    auto const answer = ask(*ranks, capital());
    EXPECT_EQ(answer.text, "The capital of France is Paris.");
    ASSERT_TRUE(answer.finished.has_value());
    EXPECT_EQ(answer.finished->finish_reason, model::FinishReason::stop);
    EXPECT_GT(answer.finished->usage.prompt_tokens, 10u);
    EXPECT_EQ(answer.finished->usage.completion_tokens, 7u);
    EXPECT_GT(answer.finished->stats.generation_tokens_per_second, 0);
    shut_down(*ranks);
}

TEST_F(RunnerTest, a_pipeline_answers_byte_for_byte_like_one_rank) {
    auto wanted = story();
    wanted.max_tokens = 80;
    std::string expected;
    for (std::uint32_t const size : {1u, 2u, 3u, 4u}) {
        auto ranks = ready(start_for(model::Sharding::pipeline, size));
        auto const answer = ask(*ranks, wanted);
        if (size == 1) {
            expected = answer.text;
            EXPECT_GT(expected.size(), 200u);
        }
        EXPECT_EQ(answer.text, expected) << size << " ranks";
        EXPECT_EQ(ask(*ranks, capital()).text, "The capital of France is Paris.");
        shut_down(*ranks);
    }
}

TEST_F(RunnerTest, tensor_ranks_name_the_capital_too) {
    for (std::uint32_t const size : {2u, 3u, 4u}) {
        auto ranks = ready(start_for(model::Sharding::tensor, size));
        EXPECT_EQ(ask(*ranks, capital()).text, "The capital of France is Paris.") << size;
        shut_down(*ranks);
    }
}

TEST_F(RunnerTest, tensor_ranks_name_the_capital_in_every_wire_type) {
    for (auto const type : {model::WireType::f32, model::WireType::f16, model::WireType::q8}) {
        auto start = start_for(model::Sharding::tensor, 3);
        start.settings.wire_type = type;
        auto ranks = ready(start);
        auto const answer = ask(*ranks, capital()).text;
        EXPECT_NE(answer.find("Paris"), std::string::npos) << static_cast<int>(type) << answer;
        shut_down(*ranks);
    }
}

TEST_F(RunnerTest, layers_go_to_the_ranks_as_the_shares_say) {
    auto start = start_for(model::Sharding::pipeline, 2);
    start.shares = {25, 5};
    auto ranks = ready(start);
    EXPECT_EQ(ask(*ranks, capital()).text, "The capital of France is Paris.");
    shut_down(*ranks);
}

TEST_F(RunnerTest, generation_stops_at_the_wish_and_where_the_request_says) {
    auto ranks = ready(start_for(model::Sharding::pipeline, 1));
    auto wanted = capital("stop");
    wanted.stop = {"France is", "never"};
    auto answer = ask(*ranks, wanted);
    EXPECT_EQ(answer.text, "The capital of ");
    EXPECT_EQ(answer.finished.value().finish_reason, model::FinishReason::stop);

    wanted = capital("length");
    wanted.max_tokens = 3;
    answer = ask(*ranks, wanted);
    EXPECT_EQ(answer.text, "The capital of");
    EXPECT_EQ(answer.finished.value().finish_reason, model::FinishReason::length);
    EXPECT_EQ(answer.finished->usage.completion_tokens, 3u);
    shut_down(*ranks);
}

TEST_F(RunnerTest, the_same_seed_gives_the_same_answer) {
    auto ranks = ready(start_for(model::Sharding::pipeline, 1));
    auto wanted = story("one");
    wanted.max_tokens = 30;
    wanted.sampling = {.temperature = 1.0, .seed = 17u};
    auto const first = ask(*ranks, wanted).text;
    wanted.task_id = model::TaskId("two");
    EXPECT_EQ(ask(*ranks, wanted).text, first);
    wanted.task_id = model::TaskId("three");
    wanted.sampling.seed = 18u;
    EXPECT_NE(ask(*ranks, wanted).text, first);
    shut_down(*ranks);
}

TEST_F(RunnerTest, the_context_limits_prompt_and_answer) {
    auto start = start_for(model::Sharding::pipeline, 2);
    start.context_length = 256;
    auto ranks = ready(start);
    std::string longer;
    for (int i = 0; i < 300; ++i) {
        longer += " word";
    }
    auto answer = ask(*ranks, request("long prompt", longer));
    ASSERT_TRUE(answer.failed.has_value());
    EXPECT_EQ(answer.failed->code, "context_length_exceeded");
    EXPECT_NE(answer.failed->message.find("256"), std::string::npos) << answer.failed->message;

    // An answer that has begun already, so that little room is left.
    auto wanted = story("long answer");
    std::string begun;
    for (int i = 0; i < 12; ++i) {
        begun += "Once upon a time there was a fox who lived by a river. ";
    }
    wanted.messages.push_back({.role = "assistant", .content = begun + "The fox"});
    answer = ask(*ranks, wanted);
    ASSERT_TRUE(answer.finished.has_value());
    EXPECT_EQ(answer.finished->finish_reason, model::FinishReason::length);
    auto const& usage = answer.finished->usage;
    EXPECT_EQ(usage.prompt_tokens + usage.completion_tokens, 257u); // The last needs no cell.
    EXPECT_EQ(ask(*ranks, capital()).text, "The capital of France is Paris.");
    shut_down(*ranks);
}

TEST_F(RunnerTest, an_idle_instance_notices_a_dead_rank) {
    auto ranks = ready(start_for(model::Sharding::tensor, 2));
    ranks->kill(1);
    Listener listener(*ranks);
    while (listener.next()) {
    }
    EXPECT_NE(listener.fault_text.find("rank 1"), std::string::npos) << listener.fault_text;
    EXPECT_EQ(ranks->wait(0), 1);
}

TEST_F(RunnerTest, without_its_node_a_rank_ends_and_the_others_fail) {
    auto ranks = ready(start_for(model::Sharding::pipeline, 2));
    ranks->hang_up(1);
    EXPECT_EQ(ranks->wait(1), 0);
    Listener listener(*ranks);
    while (listener.next()) {
    }
    EXPECT_EQ(ranks->wait(0), 1);
}

TEST_F(RunnerTest, ranks_with_different_parameters_do_not_meet) {
    auto start = start_for(model::Sharding::pipeline, 1);
    start.world_size = 2;
    auto ranks = spawn(start);
    ranks->kill(1);
    (void)ranks->wait(1);
    auto other = start;
    other.micro_batch = 32;
    auto others = spawn(other);
    // Rank 0 of one pair and rank 1 of the other are told of each other.
    auto const port = [](LocalRanks& of, std::uint32_t rank) -> std::uint16_t {
        auto const message = of.receive(rank, message_limit);
        return std::get<ipc::Listening>(message.value().value()).port;
    };
    ipc::Connect const connect{
        .key_hex = std::string(64, 'a'),
        .endpoints =
            {{.addresses = {"127.0.0.1"}, .port = port(*ranks, 0)},
             {.addresses = {"127.0.0.1"}, .port = port(*others, 1)}},
    };
    EXPECT_TRUE(ranks->send(0, connect).has_value());
    EXPECT_TRUE(others->send(1, connect).has_value());
    Listener listener(*ranks);
    while (listener.next()) {
    }
    EXPECT_NE(listener.fault_text.find("micro-batch"), std::string::npos) << listener.fault_text;
    EXPECT_EQ(ranks->wait(0), 1);
    EXPECT_EQ(others->wait(1), 1);
}

TEST_F(RunnerTest, a_truncated_model_is_a_fault_that_names_it) {
    auto const path = std::filesystem::temp_directory_path() /
                      ("exo-runner-test-" + std::to_string(getpid()) + ".gguf");
    std::filesystem::copy_file(test_model(), path);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1000);
    auto start = start_for(model::Sharding::pipeline, 1);
    start.model_paths = {path.string()};
    auto ranks = spawn(start);
    auto const connected = ranks->connect(ready_limit);
    std::filesystem::remove(path);
    ASSERT_FALSE(connected.has_value());
    EXPECT_NE(connected.error().text().find(path.string() + " is truncated"), std::string::npos)
        << connected.error().text();
    EXPECT_EQ(ranks->wait(0), 1);
}

// ---- the command line

struct Output {
    int code = 0;
    std::string text;
};

Output run(std::string const& arguments) {
    Output output;
    auto const command = std::string(EXO_RUNNER_ALONE) + " runner " + arguments;
    auto* const pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (auto const got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
        output.text.append(buffer.data(), got);
    }
    output.code = WEXITSTATUS(pclose(pipe));
    return output;
}

TEST_F(RunnerTest, the_probe_prints_what_ranks_need) {
    auto const output =
        run("--probe " + test_model() + " --ranks 2 --sharding tensor --context 512");
    EXPECT_EQ(output.code, 0);
    auto const json = nlohmann::json::parse(output.text);
    EXPECT_EQ(json["ok"], true);
    EXPECT_EQ(json["ranks"].size(), 2u);
}

TEST_F(RunnerTest, the_probe_of_what_is_no_model_gives_the_reason) {
    auto const output = run("--probe " EXO_SOURCE_DIR "/CMakeLists.txt --ranks 2");
    EXPECT_EQ(output.code, 0);
    auto const json = nlohmann::json::parse(output.text);
    EXPECT_EQ(json["ok"], false);
    EXPECT_NE(json["reason"].get<std::string>().find("is text"), std::string::npos);
}

TEST_F(RunnerTest, a_number_beyond_reason_is_refused_with_the_numbers_that_are_not) {
    auto const refused = [](std::string const& flags) {
        auto const output = run(flags + " 2>&1");
        EXPECT_NE(output.code, 0) << flags;
        return output.text;
    };
    auto const too_long = refused("--probe " + test_model() + " --context 4000000000");
    EXPECT_TRUE(too_long.starts_with("--context: Value 4000000000 not in range 0 to 16777216"))
        << too_long;
    auto const none = refused("--bench " + test_model() + " --prompt 0");
    EXPECT_TRUE(none.starts_with("--prompt: Value 0 not in range 1 to 16777216")) << none;
    auto const many = refused("--bench " + test_model() + " --threads 513");
    EXPECT_TRUE(many.starts_with("--threads: Value 513 not in range 0 to 512")) << many;
}

TEST_F(RunnerTest, a_sharding_is_named_in_any_case_and_never_by_number) {
    auto const probe = "--probe " + test_model() + " --no-ranges --ranks 2 --sharding ";
    EXPECT_EQ(run(probe + "TENSOR").text, run(probe + "tensor").text);
    EXPECT_NE(run(probe + "tensor").text, run(probe + "pipeline").text);
    EXPECT_TRUE(run(probe + "1 2>&1").text.starts_with("--sharding: 1 not in {pipeline,tensor}"));
}

TEST_F(RunnerTest, the_bench_prints_two_speeds) {
    auto const output =
        run("--bench " + test_model() +
            " --ranks 2 --sharding tensor --prompt 64 --generate 4 --streams 3 --threads 1");
    EXPECT_EQ(output.code, 0);
    auto const json = nlohmann::json::parse(output.text);
    EXPECT_GT(json["prefill_tokens_per_second"], 0);
    EXPECT_GT(json["decode_tokens_per_second"], 0);
}

} // namespace
} // namespace exo::runner
