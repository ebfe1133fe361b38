// SPDX-License-Identifier: Apache-2.0
//
// What a node and its runner say to each other, over one pair of pipes or a socket pair. A frame is
// a length and a MessagePack document (frame.hpp). The runner obeys its parent's pipe only, and
// ends when it closes (specs/cluster.md F3, W3).
#pragma once

#include "base/bytes.hpp"
#include "model/generation.hpp"
#include "model/instance.hpp"
#include "model/runner_status.hpp"

#include <string>
#include <variant>
#include <vector>

namespace exo::ipc {

// ---- node to runner

// The first message: everything that a rank must know to start. Answered by Listening (world_size
// above 1) and by statuses: Idle, then (after Connect) Connecting, Connected, Loading..., Loaded,
// WarmingUp, Ready.
struct Start {
    model::InstanceId instance_id;
    model::RunnerId runner_id;
    model::Generation generation = 1;
    model::Sharding sharding = model::Sharding::pipeline;
    std::uint32_t device_rank = 0;
    std::uint32_t world_size = 1;
    std::vector<std::uint64_t> shares;    // By rank: layers (pipeline), or width (tensor).
    std::vector<std::string> model_paths; // The GGUF file, or its splits in order.
    std::uint32_t context_length = 0;     // Tokens of KV cache; 0: the model's own, up to a limit.
    std::uint32_t micro_batch = 0;        // Tokens; 0: the engine's default.
    std::uint32_t threads = 0;            // 0: one a physical core.
    std::string device = "auto";          // engine::EngineOptions::device
    model::InstanceSettings settings;
    std::vector<std::string> draft_paths; // Of settings.draft_model; rank 0 only.
    // "10.1.2.0/24": networks of this machine on which ranks need no cipher.
    std::vector<std::string> private_networks;

    bool operator==(Start const&) const = default;
};

// How each rank can be reached: every address is tried with this port.
struct RankEndpoint {
    std::vector<std::string> addresses; // IP addresses, best first.
    std::uint16_t port = 0;

    bool operator==(RankEndpoint const&) const = default;
};

// The group is complete: connect, then load and warm up. Sent to a single rank too (without
// endpoints).
struct Connect {
    std::string key_hex; // 32 bytes; the key of this instance's generation (specs/engine.md).
    std::vector<RankEndpoint> endpoints; // By rank.

    bool operator==(Connect const&) const = default;
};

// To rank 0 only. Answered by Generated until a terminal event.
struct Generate {
    model::GenerationRequest request;

    bool operator==(Generate const&) const = default;
};

// The task leaves the batch within one step; no further event of it follows. An unknown task is
// ignored: it may just have ended.
struct Cancel {
    model::TaskId task_id;

    bool operator==(Cancel const&) const = default;
};

// End in good order: streams first, exit code 0.
struct Shutdown {
    bool operator==(Shutdown const&) const = default;
};

using ToRunner = std::variant<Start, Connect, Generate, Cancel, Shutdown>;

// ---- runner to node

struct Listening {
    std::uint16_t port = 0;

    bool operator==(Listening const&) const = default;
};

struct StatusChanged {
    model::RunnerStatus status;

    bool operator==(StatusChanged const&) const = default;
};

struct Generated {
    model::TaskId task_id;
    model::GenerationEvent event;

    bool operator==(Generated const&) const = default;
};

// A fault that ends the runner: its last words, before a non-zero exit.
struct Fault {
    std::string message;

    bool operator==(Fault const&) const = default;
};

using FromRunner = std::variant<Listening, StatusChanged, Generated, Fault>;

} // namespace exo::ipc
