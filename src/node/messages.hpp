// SPDX-License-Identifier: Apache-2.0
//
// What nodes say to each other on direct streams, apart from the cluster protocol
// (core/replica/message.hpp). Each is a MessagePack document behind a varint length.
#pragma once

#include "ipc/messages.hpp"
#include "model/generation.hpp"
#include "model/ids.hpp"
#include "node/probe/output.hpp"

#include <optional>
#include <string>
#include <vector>

namespace exo::node {

// A request for text: the API node opens the stream to rank 0's node and says OpenTask; events
// (model::GenerationEvent) come back until a terminal one. A reset cancels; a lost connection does
// not (specs/cluster.md T3).
constexpr char const* generate_protocol = "/exo/generate/1.0.0";

struct OpenTask {
    model::InstanceId instance_id;
    bool resume = false;           // The task is known: go on from `next_number`.
    std::uint64_t next_number = 0; // The first delta that is wanted.
    model::GenerationRequest request;
};

// Which instance should take a request? Asked of the master, who sees all requests (T1).
constexpr char const* choose_protocol = "/exo/choose/1.0.0";

struct ChooseInstance {
    model::ModelId model;
};

struct ChosenInstance {
    std::optional<model::InstanceId> instance_id;
};

// The ranks of a group find each other: rank r's node tells rank 0's node where its runner listens,
// and is answered when all are there. The key of the generation is made by rank 0's node and
// travels only here (specs/engine.md, Keys).
constexpr char const* group_protocol = "/exo/group/1.0.0";

struct JoinGroup {
    model::InstanceId instance_id;
    model::Generation generation = 0;
    std::uint32_t device_rank = 0;
    ipc::RankEndpoint endpoint;
};

struct GroupComplete {
    ipc::Connect connect;
};

// Can a model on your disk be run so? Each way is tried in a child process, which takes about half
// a second; the answer has a verdict for each, in order, or an error.
constexpr char const* probe_protocol = "/exo/probe/1.0.0";

struct ProbeModel {
    model::ModelId model;
    std::vector<Way> ways;
};

struct ProbedModel {
    std::vector<model::ModelCut> cuts;
    std::string error;
};

// Larger is refused: a prompt with its history is text, and 8 MiB of it fills any context.
constexpr std::size_t open_task_bytes_max = 8u << 20;
constexpr std::size_t event_bytes_max = 1u << 20;
constexpr std::size_t small_message_bytes_max = 64u << 10;
// 16 ways of up to 16 ranks take some 20 KiB.
constexpr std::size_t probe_answer_bytes_max = 256u << 10;

} // namespace exo::node
