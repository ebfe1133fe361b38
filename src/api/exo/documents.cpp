// SPDX-License-Identifier: Apache-2.0
#include "api/exo/documents.hpp"

#include "base/text.hpp"
#include "model/json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <set>

namespace exo::api::exo_api {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t nodes_max = 1024; // More than any placement can use.

// {"<id>": value as JSON, ...}
template <class Map>
Json object_of(Map const& map) {
    Json object = Json::object();
    for (auto const& [id, value] : map) {
        object[id.value()] = model::to_json(value, model::Naming::camel);
    }
    return object;
}

// {"<node>": a part of its information, ...}
template <class Part>
Json by_node(model::Observations const& observations, Part part) {
    Json object = Json::object();
    for (auto const& [id, info] : observations) {
        object[id.value()] = part(info);
    }
    return object;
}

// An address such as /ip4/10.0.0.2/tcp/4001/p2p/12D3..., as the original's State shows it. The zone
// of a link-local one (/ip6zone/eth0/ip6/fe80::1/...) is a word of the node that tells of the link.
Json edge_of(std::string const& address) {
    Json edge{{"address", address}, {"address_type", ""}, {"ip_address", ""}, {"port", 0}};
    auto parts = split(address, '/'); // The first is empty.
    if (parts.size() >= 3 && parts[1] == "ip6zone") {
        parts.erase(parts.begin() + 1, parts.begin() + 3);
    }
    if (parts.size() >= 3) {
        edge["address_type"] = parts[1];
        edge["ip_address"] = parts[2];
    }
    std::uint16_t port = 0;
    if (parts.size() >= 5) {
        std::from_chars(parts[4].data(), parts[4].data() + parts[4].size(), port);
        edge["port"] = port;
    }
    return {{"sinkMultiaddr", std::move(edge)}};
}

Json topology_of(model::Observations const& observations) {
    Json nodes = Json::array();
    Json connections = Json::object();
    for (auto const& [id, info] : observations) {
        nodes.push_back(id.value());
        Json sinks = Json::object();
        for (auto const& link : info.links) {
            sinks[link.peer.value()].push_back(edge_of(link.address));
        }
        connections[id.value()] = std::move(sinks);
    }
    return {{"nodes", std::move(nodes)}, {"connections", std::move(connections)}};
}

// A model that is whole on a node's disk.
Json completed_download(model::NodeId const& node, model::ModelCard const& card) {
    model::PipelineShardMetadata shard;
    shard.model_card = card;
    shard.end_layer = card.n_layers;
    shard.n_layers = card.n_layers;
    Json download{
        {"nodeId", node.value()},
        {"shardMetadata", model::to_json(model::ShardMetadata(shard), model::Naming::camel)},
        {"total", {{"inBytes", card.storage_size.in_bytes}}}
    };
    return {{"DownloadCompleted", std::move(download)}};
}

Json downloads_of(model::Observations const& observations) {
    return by_node(observations, [](model::NodeInfo const& info) {
        Json list = Json::array();
        for (auto const& card : info.models) {
            list.push_back(completed_download(info.node_id, card));
        }
        return list;
    });
}

Json interfaces_of(model::NodeInfo const& info) {
    Json list = Json::array();
    for (auto const& interface : info.interfaces) {
        list.push_back(model::to_json(interface, model::Naming::camel));
    }
    return {{"interfaces", std::move(list)}};
}

Json master_of(ClusterView const& view) {
    return view.master_node_id ? Json(view.master_node_id->value()) : Json();
}

bool is_ready(model::State const& state, model::Instance const& instance) {
    auto const& runners = model::shard_assignments(instance).node_to_runner;
    return !runners.empty() && std::all_of(runners.begin(), runners.end(), [&](auto const& entry) {
        auto const status = state.runners.find(entry.second);
        return status != state.runners.end() && model::serves(status->second);
    });
}

std::string short_name(std::string const& id) {
    return id.substr(id.rfind('/') + 1);
}

// The field under either spelling; null when absent.
Json const* find(Json const& body, char const* snake, char const* camel) {
    for (auto const* const name : {snake, camel}) {
        auto const found = body.find(name);
        if (found != body.end() && !found->is_null()) {
            return &*found;
        }
    }
    return nullptr;
}

// The enumerator that a field names; `value` stays as it is when the field is absent.
template <class Enum>
ApiResult<> read_enum(Json const& body, char const* snake, char const* camel, Enum& value) {
    auto const* field = find(body, snake, camel);
    if (field == nullptr) {
        return {};
    }
    if (!field->is_string()) {
        return bad_request(snake, "a string expected");
    }
    auto const read = model::enum_from_name<Enum>(field->get_ref<std::string const&>());
    if (!read) {
        return bad_request(snake, read.error().text());
    }
    value = *read;
    return {};
}

// A json converts to anything, an error included: say which of the two it is.
ApiResult<Json> found(Json value) {
    return ApiResult<Json>(boost::system::in_place_value, std::move(value));
}

// "nodeMemory" of "node_memory": both spellings are in use.
std::string camel_case(std::string_view snake) {
    std::string camel;
    for (std::size_t i = 0; i < snake.size(); ++i) {
        bool const joint = snake[i] == '_' && i > 0 && i + 1 < snake.size() &&
                           snake[i + 1] >= 'a' && snake[i + 1] <= 'z';
        camel += joint ? static_cast<char>(snake[++i] - 'a' + 'A') : snake[i];
    }
    return camel;
}

Json const* member_of(Json const& object, std::string const& key) {
    auto member = object.find(key);
    if (member == object.end()) {
        member = object.find(camel_case(key));
    }
    return member == object.end() ? nullptr : &*member;
}

ApiError missing_part(std::string const& part) {
    return to_api_error(Error(Errc::not_found, fmt::format("the state has no '{}' there", part)));
}

// Sets the field `name` of settings, which are JSON in snake_case.
ApiResult<> set_field(Json& settings, std::string const& name, Json const& value) {
    settings[name] = value;
    if (auto const read = model::from_json<model::InstanceSettings>(settings); !read) {
        std::string const text = read.error().text(); // "<path>: <what is wrong>"
        return bad_request("settings." + name, text.substr(text.find(": ") + 2));
    }
    return {};
}

// The name of the setting that `key` means, in either spelling; empty if there is none.
std::string setting_name(Json const& settings, std::string const& key) {
    for (auto known = settings.begin(); known != settings.end(); ++known) {
        if (key == known.key() || key == camel_case(known.key())) {
            return known.key();
        }
    }
    return {};
}

// What the object in `body` says is written over `settings`; null says nothing.
ApiResult<> read_settings(Json const& body, model::InstanceSettings& settings) {
    auto const* const given = find(body, "settings", "settings");
    if (given == nullptr) {
        return {};
    }
    if (!given->is_object()) {
        return bad_request("settings", "an object expected");
    }
    Json merged = model::to_json(settings, model::Naming::snake);
    for (auto const& [key, value] : given->items()) {
        auto const name = setting_name(merged, key);
        if (name.empty()) {
            return bad_request(
                "settings." + std::string(utf8_prefix(key, 100)), "there is no such setting"
            );
        }
        if (!value.is_null()) {
            EXO_TRY(set_field(merged, name, value));
        }
    }
    settings = model::from_json<model::InstanceSettings>(merged).value();
    if (settings.draft_model == model::ModelId()) { // None, where the node has one by default.
        settings.draft_model.reset();
    }
    if (auto fault = model::find_fault(settings)) {
        return bad_request("settings." + fault->field, std::move(fault->text));
    }
    return {};
}

} // namespace

Json state_document(ClusterView const& view) {
    auto const& state = *view.state;
    auto const& observations = *view.observations;
    return {
        {"nodeId", view.node_id.value()},
        {"masterNodeId", master_of(view)},
        {"lastEventAppliedIdx", state.last_event_applied_idx},
        {"instances", object_of(state.instances)},
        {"runners", object_of(state.runners)},
        {"tasks", object_of(state.tasks)},
        {"wishes", object_of(state.wishes)},
        {"members", object_of(state.members)},
        {"downloads", downloads_of(observations)},
        {"topology", topology_of(observations)},
        {"nodeIdentities",
         by_node(
             observations,
             [](auto const& info) { return model::to_json(info.identity, model::Naming::camel); }
         )},
        {"nodeMemory",
         by_node(
             observations,
             [](auto const& info) { return model::to_json(info.memory, model::Naming::camel); }
         )},
        {"nodeDisk",
         by_node(
             observations,
             [](auto const& info) { return model::to_json(info.disk, model::Naming::camel); }
         )},
        {"nodeNetwork", by_node(observations, interfaces_of)},
        {"nodeSystem", Json::object()}, // Load and power: no node measures them yet.
        {"nodeApi",
         by_node(
             observations,
             [](auto const& info) { return Json{{"port", info.api_port}, {"worker", info.worker}}; }
         )},
    };
}

ApiResult<Json> state_part(Json const& document, std::vector<std::string> const& path) {
    auto const* part = &document;
    for (auto const& key : path) {
        if (part->is_array()) {
            std::size_t index = 0;
            auto const end = key.data() + key.size();
            auto const read = std::from_chars(key.data(), end, index);
            if (read.ec != std::errc() || read.ptr != end || index >= part->size()) {
                return missing_part(key);
            }
            part = &(*part)[index];
        } else {
            part = part->is_object() ? member_of(*part, key) : nullptr;
            if (part == nullptr) {
                return missing_part(key);
            }
        }
    }
    return found(*part);
}

Json model_entry(model::ModelCard const& card, std::int64_t created) {
    auto const& id = card.model_id.value();
    constexpr std::uint64_t megabyte = 1'000'000;
    return {
        {"id", id},
        {"object", "model"},
        {"created", created},
        {"owned_by", "exo"},
        {"hugging_face_id", id.find('/') == std::string::npos ? "" : id.substr(0, id.find(':'))},
        {"name", short_name(id)},
        {"description", ""},
        {"context_length", card.context_length},
        {"tags", Json::array()},
        {"storage_size_megabytes", (card.storage_size.in_bytes + megabyte / 2) / megabyte},
        {"supports_tensor", card.supports_tensor},
        {"tasks", card.tasks},
        {"is_custom", false},
        {"family", card.family},
        {"quantization", card.quantization},
        {"base_model", card.name},
        {"capabilities", card.capabilities},
    };
}

Json models_document(std::vector<model::ModelCard> const& cards, std::int64_t created) {
    Json list = Json::array();
    for (auto const& card : cards) {
        list.push_back(model_entry(card, created));
    }
    return {{"object", "list"}, {"data", std::move(list)}};
}

Json health_document(ClusterView const& view) {
    std::set<std::string> ready;
    for (auto const& [id, instance] : view.state->instances) {
        if (is_ready(*view.state, instance)) {
            ready.insert(model::shard_assignments(instance).model_id.value());
        }
    }
    return {
        {"status", "ok"},
        {"node_id", view.node_id.value()},
        {"master_node_id", master_of(view)},
        {"nodes", view.observations->size()},
        {"ready_models", ready}
    };
}

ApiResult<PlaceRequest> parse_place_request(
    std::string_view text,
    std::function<model::InstanceSettings(std::string const& model_id)> const& defaults_for
) {
    auto const body = model::parse_json(text);
    if (!body || !body->is_object()) {
        return bad_request(
            "", "the body must be a JSON object" + (body ? "" : ": " + body.error().text())
        );
    }
    PlaceRequest request;
    auto const* id = find(*body, "model_id", "modelId");
    if (id == nullptr || !id->is_string() || id->get_ref<std::string const&>().empty()) {
        return bad_request("model_id", "a string that is not empty is needed");
    }
    request.model_id = id->get<std::string>();
    EXO_TRY(read_enum(*body, "sharding", "sharding", request.sharding));
    EXO_TRY(read_enum(*body, "instance_meta", "instanceMeta", request.instance_meta));
    if (auto const* nodes = find(*body, "min_nodes", "minNodes")) {
        if (!nodes->is_number_unsigned() || nodes->get<std::uint64_t>() < 1 ||
            nodes->get<std::uint64_t>() > nodes_max) {
            return bad_request(
                "min_nodes", fmt::format("an integer from 1 to {} is needed", nodes_max)
            );
        }
        request.min_nodes = nodes->get<std::uint32_t>();
    }
    request.settings = defaults_for(request.model_id);
    EXO_TRY(read_settings(*body, request.settings));
    return request;
}

Json placed_document(Placed const& placed) {
    return {
        {"message", "Command received."},
        {"command_id", placed.command_id.value()},
        {"instance_id", placed.instance_id.value()},
        {"model_card", model::to_json(placed.model_card, model::Naming::camel)}
    };
}

Json deleted_document(Deleted const& deleted) {
    return {
        {"message", "Command received."},
        {"command_id", deleted.command_id.value()},
        {"instance_id", deleted.instance_id.value()}
    };
}

ApiResult<Json> instance_document(ClusterView const& view, std::string const& instance_id) {
    auto const instance = view.state->instances.find(model::InstanceId(instance_id));
    if (instance == view.state->instances.end()) {
        return to_api_error(
            Error(Errc::not_found, fmt::format("no instance '{}'", utf8_prefix(instance_id, 100)))
        );
    }
    return found(model::to_json(instance->second, model::Naming::camel));
}

} // namespace exo::api::exo_api
