// SPDX-License-Identifier: Apache-2.0
//
// The spelling of documents, and what becomes of wrong ones.
#include "model/json.hpp"
#include "model/json_codec.hpp"
#include "model/state.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace exo::model {
namespace {

using Json = nlohmann::json;

ModelCard card() {
    return {
        .model_id = ModelId("a/b"),
        .storage_size = {1'000'000},
        .n_layers = 28,
        .hidden_size = 576,
        .num_attention_heads = 9,
        .num_key_value_heads = 3,
        .context_length = 2048,
        .vocabulary_size = 49'152,
        .kv_bytes_per_token = 23'040,
        .supports_tensor = true,
        .architecture = "llama",
        .family = "smollm",
        .quantization = "Q4_1",
        .name = "B",
        .cuts =
            {{.sharding = Sharding::tensor, .ranks = 3, .refusal = "odd heads"},
             {.ranks = 1,
              .layer_bytes = 30'000,
              .needs = {{.weight_bytes = 900'000, .kv_bytes_per_token = 23'040, .compute_bytes = 5}}
             }}
    };
}

Instance instance() {
    MlxRingInstance ring{
        .instance_id = InstanceId("i1"), .wish_id = WishId("w1"), .context_length = 2048
    };
    ring.shard_assignments.model_id = ModelId("a/b");
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        RunnerId const runner("r" + std::to_string(rank));
        NodeId const node("n" + std::to_string(rank));
        ring.shard_assignments.node_to_runner[node] = runner;
        ring.shard_assignments.runner_to_shard[runner] = PipelineShardMetadata{
            .model_card = card(),
            .device_rank = rank,
            .world_size = 2,
            .start_layer = rank == 0 ? 14u : 0u,
            .end_layer = rank == 0 ? 28u : 14u,
            .n_layers = 28
        };
        ring.hosts_by_node[node] = {{.ip = "10.0.0." + std::to_string(rank + 1)}};
    }
    return ring;
}

// A State with something in each field, in the shapes of specs/exo-behaviour.md appendix D.
State example() {
    Session const session{.master_node_id = NodeId("n0"), .election_clock = 3, .nonce = 99};
    State state;
    state.last_event_applied_idx = 9041;
    state.lineage = {{.session = session, .first_index = 9000}};
    state.members[NodeId("n0")] = {
        .boot = 18'446'744'073'709'551'615u, .report_id = {.boot = 5, .n = 1}, .settled = true
    };
    state.wishes[WishId("w1")] = {.wish_id = WishId("w1"), .model_card = card(), .min_nodes = 2};
    state.instances[InstanceId("i1")] = instance();
    state.runners[RunnerId("r0")] = RunnerLoading{.layers_loaded = 4, .total_layers = 16};
    state.runners[RunnerId("r1")] =
        RunnerFailed{.error_message = "out of memory", .diagnostics = {"ggml: cannot allocate"}};
    state.runners[RunnerId("r2")] = RunnerReady{};
    state.tasks[TaskId("t1")] = TextGeneration{
        .task_id = TaskId("t1"),
        .instance_id = InstanceId("i1"),
        .task_status = TaskStatus::timed_out,
        .model = ModelId("a/b"),
        .error_message = "no answer"
    };
    state.finished_tasks = {TaskId("t1")};
    state.outcomes = {{.command_id = CommandId("c1"), .instance_id = InstanceId("i1")}};
    state.deleted_instances = {InstanceId("i0")};
    state.commands_recorded = 1;
    return state;
}

// The document as the file in testdata/ has it; EXO_UPDATE_GOLDEN=1 writes the file.
void expect_golden(Json const& document, std::string const& name) {
    std::string const path = std::string(EXO_SOURCE_DIR) + "/testdata/model/" + name;
    std::string const text = document.dump(2) + "\n";
    if (std::getenv("EXO_UPDATE_GOLDEN") != nullptr) {
        std::ofstream(path) << text;
    }
    std::ostringstream golden;
    golden << std::ifstream(path).rdbuf();
    EXPECT_EQ(text, golden.str()) << path;
}

TEST(Json, state_has_the_shapes_of_the_api) {
    expect_golden(to_json(example(), Naming::camel), "state_camel.json");
}

TEST(Json, state_on_the_wire_is_the_same_in_snake_case) {
    expect_golden(to_json(example(), Naming::snake), "state_snake.json");
}

TEST(Json, an_event_is_tagged_with_its_class) {
    Event const event = RunnerStatusUpdated{
        .runner_id = RunnerId("r"),
        .generation = 2,
        .runner_status = RunnerLoading{.layers_loaded = 4, .total_layers = 16}
    };
    EXPECT_EQ(to_json(event, Naming::snake), Json::parse(R"({"RunnerStatusUpdated": {
        "runner_id": "r", "generation": 2,
        "runner_status": {"RunnerLoading": {"layers_loaded": 4, "total_layers": 16}}}})"));
}

TEST(Json, msgpack_is_the_snake_case_document) {
    Event const event = TaskDeleted{TaskId("t")};
    EXPECT_EQ(to_hex(to_msgpack(event)), to_hex(Json::to_msgpack(to_json(event, Naming::snake))));
    // {"TaskDeleted": {"task_id": "t"}} by the MessagePack specification.
    EXPECT_EQ(to_hex(to_msgpack(event)), "81ab5461736b44656c6574656481a77461736b5f6964a174");
}

TEST(Json, enumerators_are_in_pascal_case) {
    EXPECT_EQ(enum_name(Sharding::pipeline), "Pipeline");
    EXPECT_EQ(enum_name(InstanceMeta::mlx_ring), "MlxRing");
    EXPECT_EQ(enum_name(TaskStatus::timed_out), "TimedOut");
    EXPECT_EQ(enum_name(DeletionReason::node_lost), "NodeLost");
    EXPECT_EQ(enum_from_name<InstanceMeta>("MlxJaccl").value(), InstanceMeta::mlx_jaccl);
}

TEST(Json, a_finish_reason_is_in_lower_case_as_in_the_openai_api) {
    EXPECT_EQ(enum_name(FinishReason::stop), "stop");
    EXPECT_EQ(enum_from_name<FinishReason>("length").value(), FinishReason::length);
}

TEST(Json, a_wrong_enumerator_is_answered_with_the_right_ones) {
    auto const sharding = enum_from_name<Sharding>("pipeline");
    ASSERT_FALSE(sharding);
    EXPECT_EQ(sharding.error().text(), "one of Pipeline, Tensor expected");
}

TEST(Json, input_may_have_either_spelling) {
    auto const snake = from_json<NodeMemory>(Json::parse(R"({"ram_total": {"in_bytes": 7}})"));
    auto const camel = from_json<NodeMemory>(Json::parse(R"({"ramTotal": {"inBytes": 7}})"));
    ASSERT_TRUE(snake && camel);
    EXPECT_EQ(snake->ram_total.in_bytes, 7);
    EXPECT_EQ(*snake, *camel);
}

TEST(Json, a_kind_that_is_alone_may_come_without_its_tag) {
    Json const tagged = to_json(instance(), Naming::camel);
    EXPECT_EQ(from_json<Instance>(tagged).value(), instance());
    EXPECT_EQ(from_json<Instance>(tagged.at("MlxRingInstance")).value(), instance());
}

TEST(Json, what_is_not_known_is_ignored) {
    auto const memory = from_json<Memory>(Json::parse(R"({"inBytes": 1, "inNibbles": 2})"));
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->in_bytes, 1);
}

TEST(Json, an_unknown_kind_of_event_can_be_told_from_a_wrong_one) {
    auto const newer = from_json<Event>(Json::parse(R"({"NodeDreamt": {"of": "sheep"}})"));
    ASSERT_FALSE(newer);
    EXPECT_EQ(newer.error().code(), Errc::unsupported);
    auto const wrong = from_json<Event>(Json::parse(R"({"TaskDeleted": {"task_id": 1}})"));
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code(), Errc::invalid_argument);
}

TEST(Json, text_that_is_not_utf8_is_mended_on_the_way_out) {
    RunnerStatus const status = RunnerFailed{.error_message = "bad \xff\xc3 end"};
    EXPECT_EQ(
        to_text(to_json(status, Naming::camel).at("RunnerFailed").at("errorMessage")),
        "\"bad \xef\xbf\xbd\xef\xbf\xbd end\""
    );
}

TEST(Json, text_that_is_not_utf8_is_refused_on_the_way_in) {
    Bytes const bytes = Json::to_msgpack({{"TaskDeleted", {{"task_id", "\xff"}}}});
    auto const event = from_msgpack<Event>(bytes);
    ASSERT_FALSE(event);
    EXPECT_EQ(event.error().text(), "TaskDeleted.task_id: is not valid UTF-8");
}

TEST(Json, numbers_that_json_does_not_have_are_written_as_zero) {
    GenerationStats const stats{.prompt_tokens_per_second = std::nan("")};
    EXPECT_EQ(
        to_json(GenerationEvent(GenerationFinished{.stats = stats}), Naming::snake)
            .at("GenerationFinished")
            .at("stats")
            .at("prompt_tokens_per_second"),
        0.0
    );
}

// A wrong document and what is said of it.
struct Wrong {
    char const* name;
    char const* json;
    char const* text;
};

class WrongEvent : public testing::TestWithParam<Wrong> {};

TEST_P(WrongEvent, is_refused_with_its_path) {
    auto const event = from_json<Event>(Json::parse(GetParam().json));
    ASSERT_FALSE(event);
    EXPECT_EQ(event.error().text(), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Documents,
    WrongEvent,
    testing::Values(
        Wrong{"null", "null", "an object with one key, the kind, expected"},
        Wrong{"list", "[]", "an object with one key, the kind, expected"},
        Wrong{"empty", "{}", "an object with one key, the kind, expected"},
        Wrong{
            "two_kinds",
            R"({"TaskDeleted": {}, "NodeTimedOut": {}})",
            "an object with one key, the kind, expected"
        },
        Wrong{"missing", R"({"TaskDeleted": {}})", "TaskDeleted.task_id: is missing"},
        Wrong{"type", R"({"TaskDeleted": {"taskId": 7}})", "TaskDeleted.task_id: text expected"},
        Wrong{"content", R"({"TaskDeleted": "t"})", "TaskDeleted: an object expected"},
        Wrong{
            "negative",
            R"({"InstanceRestarted": {"instance_id": "i", "generation": -1}})",
            "InstanceRestarted.generation: a whole number from 0 to 4294967295 expected"
        },
        Wrong{
            "too_large",
            R"({"InstanceRestarted": {"instance_id": "i", "generation": 4294967296}})",
            "InstanceRestarted.generation: a whole number from 0 to 4294967295 expected"
        },
        Wrong{
            "fraction",
            R"({"InstanceRestarted": {"instance_id": "i", "generation": 1.5}})",
            "InstanceRestarted.generation: a whole number from 0 to 4294967295 expected"
        },
        Wrong{
            "enumerator",
            R"({"TaskStatusUpdated": {"task_id":"t", "task_status":"Done", "error_message":""}})",
            "TaskStatusUpdated.task_status: one of Pending, Running, Complete, TimedOut, Failed, "
            "Cancelled expected"
        },
        Wrong{
            "deep",
            R"({"RunnerStatusUpdated": {"runner_id": "r", "generation": 1, "runner_status":
               {"RunnerFailed": {"error_message": "", "diagnostics": ["a", 1]}}}})",
            "RunnerStatusUpdated.runner_status.RunnerFailed.diagnostics[1]: text expected"
        },
        Wrong{
            "bool",
            R"({"InstanceCreated": {"instance": {"MlxRingInstance": {}}, "adopted": 1}})",
            "InstanceCreated.instance.MlxRingInstance.instance_id: is missing"
        }
    ),
    [](auto const& row) { return row.param.name; }
);

TEST(ParseJson, says_where_the_text_is_wrong) {
    auto const json = parse_json(R"({"a": })");
    ASSERT_FALSE(json);
    EXPECT_EQ(json.error().code(), Errc::invalid_argument);
    EXPECT_NE(json.error().text().find("at byte 7"), std::string::npos) << json.error().text();
}

TEST(ParseJson, the_wrong_texts_are_errors) {
    for (std::string const text :
         {"", " ", "{", "[1,", "\"", "nul", "{\"a\":1}x", "[1e999]", "\"\xff\"", "{1:2}", "\\"}) {
        EXPECT_FALSE(parse_json(text)) << text;
    }
}

TEST(ParseJson, nesting_has_a_limit) {
    std::string const deep(document_depth_max, '[');
    EXPECT_TRUE(parse_json(deep + std::string(document_depth_max, ']')));
    auto const deeper = parse_json(std::string(1'000'000, '['));
    ASSERT_FALSE(deeper);
    EXPECT_EQ(deeper.error().code(), Errc::limit);
}

TEST(ParseMsgpack, nesting_has_a_limit) {
    auto const deep = parse_msgpack(Bytes(1'000'000, 0x91)); // Lists of one list.
    ASSERT_FALSE(deep);
    EXPECT_EQ(deep.error().code(), Errc::limit);
}

TEST(ParseMsgpack, the_number_of_values_has_a_limit) {
    Bytes many{0xdd, 0x00, 0x20, 0x00, 0x00}; // A list of 2^21 nils.
    many.resize(many.size() + (1u << 21), 0xc0);
    auto const document = parse_msgpack(many);
    ASSERT_FALSE(document);
    EXPECT_EQ(document.error().code(), Errc::limit);
}

TEST(ParseMsgpack, a_promised_size_costs_nothing) {
    for (auto const* hex :
         {"dd ffffffff", "df ffffffff", "db ffffffff", "c6 ffffffff", "c9 ffffffff"}) {
        EXPECT_FALSE(parse_msgpack(from_hex(hex).value())) << hex;
    }
}

TEST(ParseMsgpack, keys_that_are_no_text_are_errors) {
    EXPECT_FALSE(parse_msgpack(from_hex("81 01 02").value()));
}

TEST(ParseMsgpack, every_cut_of_a_document_is_an_error) {
    Bytes const whole = to_msgpack(example());
    ASSERT_TRUE(parse_msgpack(whole));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        ASSERT_FALSE(parse_msgpack(BytesView(whole).first(size))) << size;
    }
}

} // namespace
} // namespace exo::model
