// SPDX-License-Identifier: Apache-2.0
#include "api/exo/documents.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exo::api::exo_api {
namespace {

using Json = nlohmann::json;

model::ModelCard demo_card() {
    model::ModelCard card;
    card.model_id = model::ModelId("owner/demo:Q4_1");
    card.storage_size.in_bytes = 91'700'000;
    card.n_layers = 30;
    card.context_length = 8192;
    card.supports_tensor = true;
    card.family = "SmolLM2";
    card.quantization = "Q4_1";
    card.name = "SmolLM2 135M Instruct";
    return card;
}

// A cluster of two nodes with one instance that both run.
class Documents : public testing::Test {
protected:
    Documents() {
        model::MlxRingInstance instance;
        instance.instance_id = model::InstanceId("i1");
        auto& shards = instance.shard_assignments;
        shards.model_id = model::ModelId("owner/demo:Q4_1");
        for (std::uint32_t rank = 0; rank < 2; ++rank) {
            model::PipelineShardMetadata shard;
            shard.model_card = demo_card();
            shard.device_rank = rank;
            shard.world_size = 2;
            shard.start_layer = rank * 15;
            shard.end_layer = rank * 15 + 15;
            shard.n_layers = 30;
            model::RunnerId const runner("r" + std::to_string(rank));
            shards.runner_to_shard[runner] = shard;
            shards.node_to_runner[model::NodeId("n" + std::to_string(rank))] = runner;
        }
        state_.instances[instance.instance_id] = instance;
        state_.runners[model::RunnerId("r0")] = model::RunnerReady{};
        state_.runners[model::RunnerId("r1")] =
            model::RunnerLoading{.layers_loaded = 4, .total_layers = 15};
        state_.last_event_applied_idx = 41;
        model::TextGeneration task;
        task.task_id = model::TaskId("t1");
        task.instance_id = model::InstanceId("i1");
        task.task_status = model::TaskStatus::running;
        state_.tasks[task.task_id] = task;

        auto& info = observations_[model::NodeId("n0")];
        info.node_id = model::NodeId("n0");
        info.memory.ram_total.in_bytes = 1000;
        info.identity.friendly_name = "attic";
        info.disk.available.in_bytes = 5;
        info.interfaces = {{.name = "eth0", .ip_address = "10.0.0.1", .interface_type = "ethernet"}
        };
        info.links = {
            {.peer = model::NodeId("n1"), .address = "/ip4/10.0.0.2/tcp/4001/p2p/n1"},
            {.peer = model::NodeId("n1"), .address = "/ip6/fd00::2/tcp/4001"}
        };
        info.models = {demo_card()};
        info.api_port = 52415;
        observations_[model::NodeId("n1")].node_id = model::NodeId("n1");
    }

    [[nodiscard]] ClusterView view() const {
        return {
            .node_id = model::NodeId("n0"),
            .master_node_id = model::NodeId("n1"),
            .state = &state_,
            .observations = &observations_
        };
    }

    model::State state_;
    model::Observations observations_;
};

TEST_F(Documents, state_has_the_names_that_clients_know) {
    auto const state = state_document(view());
    EXPECT_EQ(state["nodeId"], "n0");
    EXPECT_EQ(state["masterNodeId"], "n1");
    EXPECT_EQ(state["lastEventAppliedIdx"], 41);
    auto const& instance = state["instances"]["i1"]["MlxRingInstance"];
    EXPECT_EQ(instance["instanceId"], "i1");
    auto const& shards = instance["shardAssignments"];
    EXPECT_EQ(shards["nodeToRunner"], (Json{{"n0", "r0"}, {"n1", "r1"}}));
    auto const& shard = shards["runnerToShard"]["r1"]["PipelineShardMetadata"];
    EXPECT_EQ(shard["deviceRank"], 1);
    EXPECT_EQ(shard["startLayer"], 15);
    EXPECT_EQ(shard["modelCard"]["storageSize"], (Json{{"inBytes", 91'700'000}}));
    EXPECT_EQ(state["runners"]["r0"], (Json{{"RunnerReady", Json::object()}}));
    EXPECT_EQ(state["runners"]["r1"]["RunnerLoading"]["layersLoaded"], 4);
    EXPECT_EQ(state["tasks"]["t1"]["TextGeneration"]["taskStatus"], "Running");
    EXPECT_EQ(state["nodeMemory"]["n0"]["ramTotal"]["inBytes"], 1000);
    EXPECT_EQ(state["nodeIdentities"]["n0"]["friendlyName"], "attic");
    EXPECT_EQ(state["nodeDisk"]["n0"]["available"]["inBytes"], 5);
    EXPECT_EQ(state["nodeNetwork"]["n0"]["interfaces"][0]["ipAddress"], "10.0.0.1");
    EXPECT_TRUE(state["nodeSystem"].is_object());
    EXPECT_TRUE(state["wishes"].is_object());
}

TEST_F(Documents, topology_shows_each_link_with_its_address) {
    auto const topology = state_document(view())["topology"];
    EXPECT_EQ(topology["nodes"], (Json{"n0", "n1"}));
    EXPECT_EQ(topology["connections"]["n0"]["n1"], Json::parse(R"([
            {"sinkMultiaddr": {"address": "/ip4/10.0.0.2/tcp/4001/p2p/n1", "address_type": "ip4",
                               "ip_address": "10.0.0.2", "port": 4001}},
            {"sinkMultiaddr": {"address": "/ip6/fd00::2/tcp/4001", "address_type": "ip6",
                               "ip_address": "fd00::2", "port": 4001}}
        ])"));
    EXPECT_EQ(topology["connections"]["n1"], Json::object());
}

TEST_F(Documents, a_link_local_address_is_shown_without_its_zone) {
    observations_[model::NodeId("n0")].links = {
        {.peer = model::NodeId("n2"), .address = "/ip6zone/eth0/ip6/fe80::2/tcp/4001"},
    };
    auto const edges = state_document(view())["topology"]["connections"]["n0"]["n2"];
    EXPECT_EQ(edges[0]["sinkMultiaddr"], Json::parse(R"(
        {"address": "/ip6zone/eth0/ip6/fe80::2/tcp/4001", "address_type": "ip6",
         "ip_address": "fe80::2", "port": 4001})"));
}

TEST_F(Documents, an_address_that_a_peer_made_up_does_no_harm) {
    auto& links = observations_[model::NodeId("n0")].links;
    for (auto const* address :
         {"",
          "/",
          "//",
          "x",
          "/ip4",
          "/ip4/1.2.3.4/tcp/999999",
          "/a/b/c/d/e",
          "/ip6zone",
          "/ip6zone/a"}) {
        links.push_back({.peer = model::NodeId("n2"), .address = address});
    }
    auto const edges = state_document(view())["topology"]["connections"]["n0"]["n2"];
    EXPECT_EQ(edges.size(), 9u);
    EXPECT_EQ(edges[5]["sinkMultiaddr"]["port"], 0);
}

TEST_F(Documents, models_on_disk_are_completed_downloads) {
    auto const downloads = state_document(view())["downloads"];
    auto const& download = downloads["n0"][0]["DownloadCompleted"];
    EXPECT_EQ(download["nodeId"], "n0");
    EXPECT_EQ(download["total"]["inBytes"], 91'700'000);
    EXPECT_EQ(
        download["shardMetadata"]["PipelineShardMetadata"]["modelCard"]["modelId"],
        "owner/demo:Q4_1"
    );
    EXPECT_EQ(downloads["n1"], Json::array());
}

TEST_F(Documents, without_a_master_masterNodeId_is_null) {
    auto alone = view();
    alone.master_node_id = std::nullopt;
    EXPECT_TRUE(state_document(alone)["masterNodeId"].is_null());
    EXPECT_EQ(health_document(alone)["status"], "ok");
    EXPECT_TRUE(health_document(alone)["master_node_id"].is_null());
}

TEST_F(Documents, a_part_of_the_state_by_keys_and_indices) {
    auto const state = state_document(view());
    EXPECT_EQ(*state_part(state, {"nodeMemory", "n0", "ramTotal", "inBytes"}), 1000);
    EXPECT_EQ(*state_part(state, {"downloads", "n0", "0", "DownloadCompleted", "nodeId"}), "n0");
    EXPECT_EQ(*state_part(state, {"node_memory", "n0", "ram_total", "in_bytes"}), 1000);
    EXPECT_EQ(*state_part(state, {}), state);
    for (auto const& path : std::vector<std::vector<std::string>>{
             {"nothing"},
             {"downloads", "n0", "1"},
             {"downloads", "n0", "-1"},
             {"downloads", "n0", "0x"},
             {"downloads", "n0", ""},
             {"downloads", "n0", "99999999999999999999"},
             {"lastEventAppliedIdx", "x"},
             {"_"},
             {"node_"},
             {"__node_memory"},
             {""},
         }) {
        auto const part = state_part(state, path);
        ASSERT_FALSE(part);
        EXPECT_EQ(part.error().status, 404u);
    }
}

TEST_F(Documents, health_lists_a_model_when_all_its_ranks_serve) {
    EXPECT_EQ(health_document(view())["ready_models"], Json::array());
    state_.runners[model::RunnerId("r1")] = model::RunnerRunning{};
    EXPECT_EQ(
        health_document(view()),
        (Json{
            {"status", "ok"},
            {"node_id", "n0"},
            {"master_node_id", "n1"},
            {"nodes", 2},
            {"ready_models", {"owner/demo:Q4_1"}}
        })
    );
    state_.runners.erase(model::RunnerId("r0"));
    EXPECT_EQ(health_document(view())["ready_models"], Json::array());
}

TEST_F(Documents, B003_models_have_openais_list_shape_and_exos_fields) {
    EXPECT_EQ(
        models_document({demo_card()}, 1700000000), Json::parse(R"({"object": "list", "data": [{
            "id": "owner/demo:Q4_1", "object": "model", "created": 1700000000, "owned_by": "exo",
            "hugging_face_id": "owner/demo", "name": "demo:Q4_1", "description": "",
            "context_length": 8192, "tags": [], "storage_size_megabytes": 92,
            "supports_tensor": true, "tasks": ["TextGeneration"], "is_custom": false,
            "family": "SmolLM2", "quantization": "Q4_1", "base_model": "SmolLM2 135M Instruct",
            "capabilities": ["text"]
        }]})")
    );
    EXPECT_EQ(models_document({}, 0)["data"], Json::array());
}

TEST_F(Documents, an_instance_by_its_id) {
    auto const instance = instance_document(view(), "i1");
    ASSERT_TRUE(instance);
    EXPECT_EQ((*instance)["MlxRingInstance"]["instanceId"], "i1");
    auto const none = instance_document(view(), "i2");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().status, 404u);
}

ApiResult<PlaceRequest>
parsed(std::string_view body, model::InstanceSettings const& defaults = {}) {
    return parse_place_request(body, [&](std::string const&) { return defaults; });
}

TEST(PlaceRequests, both_spellings_are_read) {
    auto const snake = parsed(
        R"({"model_id": "m", "sharding": "Tensor", "instance_meta": "MlxJaccl", "min_nodes": 2})"
    );
    ASSERT_TRUE(snake) << snake.error().message;
    EXPECT_EQ(snake->model_id, "m");
    EXPECT_EQ(snake->sharding, model::Sharding::tensor);
    EXPECT_EQ(snake->instance_meta, model::InstanceMeta::mlx_jaccl);
    EXPECT_EQ(snake->min_nodes, 2u);
    auto const camel = parsed(R"({"modelId": "m", "instanceMeta": "MlxRing", "minNodes": 3})");
    ASSERT_TRUE(camel) << camel.error().message;
    EXPECT_EQ(camel->min_nodes, 3u);
    EXPECT_EQ(camel->sharding, model::Sharding::pipeline);
}

TEST(PlaceRequests, nulls_and_what_is_left_out_keep_the_defaults) {
    auto const request = parsed(R"({"model_id": "m", "sharding": null, "extra": 1})");
    ASSERT_TRUE(request);
    EXPECT_EQ(request->sharding, model::Sharding::pipeline);
    EXPECT_EQ(request->instance_meta, model::InstanceMeta::mlx_ring);
    EXPECT_EQ(request->min_nodes, 1u);
}

TEST(PlaceRequests, what_is_wrong_is_named) {
    struct Row {
        char const* body;
        char const* param;
    };

    for (auto const& [body, param] : std::initializer_list<Row>{
             {"", ""},
             {"[]", ""},
             {"{", ""},
             {"{}", "model_id"},
             {R"({"model_id": ""})", "model_id"},
             {R"({"model_id": 1})", "model_id"},
             {R"({"model_id": "m", "sharding": "Diagonal"})", "sharding"},
             {R"({"model_id": "m", "sharding": 1})", "sharding"},
             {R"({"model_id": "m", "instance_meta": "Carrier pigeon"})", "instance_meta"},
             {R"({"model_id": "m", "min_nodes": 0})", "min_nodes"},
             {R"({"model_id": "m", "min_nodes": -1})", "min_nodes"},
             {R"({"model_id": "m", "min_nodes": 1.5})", "min_nodes"},
             {R"({"model_id": "m", "min_nodes": "2"})", "min_nodes"},
             {R"({"model_id": "m", "min_nodes": 99999})", "min_nodes"},
             {R"({"model_id": "m", "settings": 1})", "settings"},
             {R"({"model_id": "m", "settings": {"speed": 1}})", "settings.speed"},
             {R"({"model_id": "m", "settings": {"cache_type": "q9"}})", "settings.cache_type"},
             {R"({"model_id": "m", "settings": {"cacheType": 8}})", "settings.cache_type"},
             {R"({"model_id": "m", "settings": {"wire_type": "F16"}})", "settings.wire_type"},
             {R"({"model_id": "m", "settings": {"parallel": 257}})", "settings.parallel"},
             {R"({"model_id": "m", "settings": {"parallel": -1}})", "settings.parallel"},
             {R"({"model_id": "m", "settings": {"context_length": 9}})", "settings.context_length"},
             {R"({"model_id": "m", "settings": {"prompt_lookup": 1}})", "settings.prompt_lookup"},
             {R"({"model_id": "m", "settings": {"draft_model": 1}})", "settings.draft_model"},
         }) {
        auto const request = parsed(body);
        ASSERT_FALSE(request) << body;
        EXPECT_EQ(request.error().status, 400u);
        EXPECT_EQ(request.error().param.value_or(""), param) << body;
    }
}

TEST(PlaceRequests, settings_are_read_in_both_spellings) {
    auto const request = parsed(R"({"model_id": "m", "settings": {
        "context_length": 4096, "cacheType": "q8_0", "parallel": 4, "wire_type": "f16",
        "promptWaitMs": 100, "draft_model": "small", "prompt_lookup": true, "draftTokens": 6}})");
    ASSERT_TRUE(request) << request.error().message;
    model::InstanceSettings const all{
        .context_length = 4096,
        .cache_type = model::CacheType::q8_0,
        .parallel = 4,
        .wire_type = model::WireType::f16,
        .prompt_wait_ms = 100,
        .draft_model = model::ModelId("small"),
        .prompt_lookup = true,
        .draft_tokens = 6
    };
    EXPECT_EQ(request->settings, all);
}

TEST(PlaceRequests, settings_left_out_are_the_nodes_own) {
    model::InstanceSettings const node{
        .cache_type = model::CacheType::q8_0, .draft_model = model::ModelId("small")
    };
    auto const silent = parsed(R"({"model_id": "m"})", node);
    ASSERT_TRUE(silent);
    EXPECT_EQ(silent->settings, node);
    auto const other = parsed(
        R"({"model_id": "m", "settings": {"cache_type": null, "draft_model": "", "parallel": 2}})",
        node
    );
    ASSERT_TRUE(other);
    model::InstanceSettings const expected{.cache_type = model::CacheType::q8_0, .parallel = 2};
    EXPECT_EQ(other->settings, expected);
}

TEST(PlaceRequests, a_wrong_setting_is_told_with_what_would_be_right) {
    auto const request = parsed(R"({"model_id": "m", "settings": {"cache_type": "q9"}})");
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().message, "settings.cache_type: one of f16, q8_0 expected");
}

TEST(PlaceRequests, answers_have_the_ids) {
    auto const placed = placed_document(
        {.command_id = model::CommandId("c"),
         .instance_id = model::InstanceId("i"),
         .model_card = demo_card()}
    );
    EXPECT_EQ(placed["message"], "Command received.");
    EXPECT_EQ(placed["command_id"], "c");
    EXPECT_EQ(placed["instance_id"], "i");
    EXPECT_EQ(placed["model_card"]["modelId"], "owner/demo:Q4_1");
    auto const deleted = deleted_document(
        {.command_id = model::CommandId("c"), .instance_id = model::InstanceId("i")}
    );
    EXPECT_EQ(
        deleted, (Json{{"message", "Command received."}, {"command_id", "c"}, {"instance_id", "i"}})
    );
}

} // namespace
} // namespace exo::api::exo_api
