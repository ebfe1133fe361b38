// SPDX-License-Identifier: Apache-2.0
//
// The description of every word of model/: which members it has, in which order they are written.
// Everything else about a format (names, spelling, tags) follows from it by rule (json.hpp).
//
// Owners of other types that travel describe theirs in the same way, in the namespace of the type:
//
//     EXO_DESCRIBE(Start, instance_id, runner_id, generation)
//     EXO_DESCRIBE(Shutdown)
//     EXO_DESCRIBE_ENUM(Colour, red, dark_blue)
#pragma once

#include "model/command.hpp"
#include "model/event.hpp"
#include "model/generation.hpp"
#include "model/node_info.hpp"
#include "model/report.hpp"
#include "model/state.hpp"

#include <boost/describe.hpp>

#include <string_view>

// The name is kept as text: what a compiler says of a type is no wire format.
#define EXO_DESCRIBE(Type, ...)                                                                    \
    BOOST_DESCRIBE_STRUCT(Type, (), (__VA_ARGS__))                                                 \
    [[maybe_unused]] constexpr std::string_view described_name(Type const*) {                      \
        return #Type;                                                                              \
    }

#define EXO_DESCRIBE_ENUM(Type, ...) BOOST_DESCRIBE_ENUM(Type, __VA_ARGS__)

namespace exo::model {

// A type whose members may be missing in a document: they keep their defaults. For soft state that
// versions of exo extend. Specialize with true.
template <class T>
constexpr bool absent_fields_keep_defaults = false;

// An enum whose names in documents are its enumerators as they are, not PascalCase.
template <class E>
constexpr bool names_stay_lower_case = false;

// ids.hpp
EXO_DESCRIBE(Memory, in_bytes)

// card.hpp
EXO_DESCRIBE_ENUM(Sharding, pipeline, tensor)
EXO_DESCRIBE(RankNeed, weight_bytes, kv_bytes_per_token, compute_bytes)
EXO_DESCRIBE(ModelCut, sharding, ranks, refusal, layer_bytes, needs)
EXO_DESCRIBE(
    ModelCard,
    model_id,
    storage_size,
    n_layers,
    hidden_size,
    num_attention_heads,
    num_key_value_heads,
    context_length,
    vocabulary_size,
    kv_bytes_per_token,
    supports_tensor,
    architecture,
    family,
    quantization,
    name,
    tasks,
    capabilities,
    cuts
)

// settings.hpp
EXO_DESCRIBE_ENUM(CacheType, f16, q8_0)
EXO_DESCRIBE_ENUM(WireType, automatic, f32, f16, q8)
template <>
inline constexpr bool names_stay_lower_case<CacheType> = true;
template <>
inline constexpr bool names_stay_lower_case<WireType> = true;
EXO_DESCRIBE(
    InstanceSettings,
    context_length,
    cache_type,
    parallel,
    wire_type,
    prompt_wait_ms,
    draft_model,
    prompt_lookup,
    draft_tokens
)
template <>
inline constexpr bool absent_fields_keep_defaults<InstanceSettings> = true;

// instance.hpp
EXO_DESCRIBE_ENUM(InstanceMeta, mlx_ring, mlx_jaccl)
EXO_DESCRIBE(
    PipelineShardMetadata, model_card, device_rank, world_size, start_layer, end_layer, n_layers
)
EXO_DESCRIBE(
    TensorShardMetadata,
    model_card,
    device_rank,
    world_size,
    start_layer,
    end_layer,
    n_layers,
    share
)
EXO_DESCRIBE(ShardAssignments, model_id, runner_to_shard, node_to_runner)
EXO_DESCRIBE(Host, ip, port)
EXO_DESCRIBE(
    MlxRingInstance,
    instance_id,
    shard_assignments,
    hosts_by_node,
    ephemeral_port,
    wish_id,
    generation,
    replaces,
    context_length,
    settings
)
EXO_DESCRIBE(
    Wish,
    wish_id,
    model_card,
    sharding,
    instance_meta,
    min_nodes,
    count,
    settings,
    automatic,
    refusal,
    failed,
    last_instance_id
)

// runner_status.hpp
EXO_DESCRIBE(RunnerIdle)
EXO_DESCRIBE(RunnerConnecting)
EXO_DESCRIBE(RunnerConnected)
EXO_DESCRIBE(RunnerLoading, layers_loaded, total_layers)
EXO_DESCRIBE(RunnerLoaded)
EXO_DESCRIBE(RunnerWarmingUp)
EXO_DESCRIBE(RunnerReady)
EXO_DESCRIBE(RunnerRunning)
EXO_DESCRIBE(RunnerShuttingDown)
EXO_DESCRIBE(RunnerShutdown)
EXO_DESCRIBE(RunnerFailed, error_message, diagnostics)

// task.hpp
EXO_DESCRIBE_ENUM(TaskStatus, pending, running, complete, timed_out, failed, cancelled)
EXO_DESCRIBE(TextGeneration, task_id, instance_id, task_status, model, error_message)

// command.hpp
EXO_DESCRIBE(
    PlaceInstance, wish_id, model_card, sharding, instance_meta, min_nodes, settings, automatic
)
EXO_DESCRIBE(DeleteInstance, instance_id)

// node_info.hpp
EXO_DESCRIBE(
    NodeIdentity, model_id, chip_id, friendly_name, os_version, os_build_version, exo_version
)
EXO_DESCRIBE(NodeMemory, ram_total, ram_available, swap_total, swap_available)
EXO_DESCRIBE(NodeDisk, total, available)
EXO_DESCRIBE(NetworkInterface, name, ip_address, interface_type)
EXO_DESCRIBE(NodeLink, peer, address)
EXO_DESCRIBE(
    NodeInfo,
    node_id,
    boot,
    sequence,
    identity,
    memory,
    disk,
    interfaces,
    links,
    models,
    api_port,
    worker
)
template <>
inline constexpr bool absent_fields_keep_defaults<NodeIdentity> = true;
template <>
inline constexpr bool absent_fields_keep_defaults<NodeMemory> = true;
template <>
inline constexpr bool absent_fields_keep_defaults<NodeDisk> = true;
template <>
inline constexpr bool absent_fields_keep_defaults<NodeInfo> = true;

// event.hpp
EXO_DESCRIBE(Session, master_node_id, election_clock, nonce)
EXO_DESCRIBE(Position, session, index)
EXO_DESCRIBE(ReportId, boot, n)
EXO_DESCRIBE(SessionStarted, session, base)
EXO_DESCRIBE(NodeJoined, node_id, boot, report_id)
EXO_DESCRIBE(NodeSettled, node_id, report_id)
EXO_DESCRIBE(NodeTimedOut, node_id)
EXO_DESCRIBE(WishCreated, wish)
EXO_DESCRIBE(WishDeleted, wish_id)
EXO_DESCRIBE(WishRefused, wish_id, reason)
EXO_DESCRIBE(InstanceCreated, instance, adopted)
EXO_DESCRIBE_ENUM(DeletionReason, user, node_lost, failed, duplicate)
EXO_DESCRIBE(InstanceDeleted, instance_id, reason, message)
EXO_DESCRIBE(InstanceRestarted, instance_id, generation)
EXO_DESCRIBE(RunnerStatusUpdated, runner_id, generation, runner_status)
EXO_DESCRIBE(TaskCreated, task)
EXO_DESCRIBE(TaskStatusUpdated, task_id, task_status, error_message)
EXO_DESCRIBE(TaskDeleted, task_id)
EXO_DESCRIBE(CommandRecorded, command_id, instance_id)

// report.hpp
EXO_DESCRIBE(ReportedRunner, instance, runner_id, status)
EXO_DESCRIBE(Report, node_id, report_id, runners)

// state.hpp
EXO_DESCRIBE(Member, boot, report_id, settled)
EXO_DESCRIBE(LineageEntry, session, first_index)
EXO_DESCRIBE(CommandOutcome, command_id, instance_id)
EXO_DESCRIBE(
    State,
    last_event_applied_idx,
    lineage,
    members,
    wishes,
    instances,
    runners,
    tasks,
    finished_tasks,
    outcomes,
    deleted_instances,
    commands_recorded
)

// generation.hpp
EXO_DESCRIBE(ChatMessage, role, content, name)
EXO_DESCRIBE(
    Sampling,
    temperature,
    top_p,
    top_k,
    min_p,
    seed,
    repetition_penalty,
    presence_penalty,
    frequency_penalty
)
EXO_DESCRIBE(GenerationRequest, task_id, model, messages, sampling, max_tokens, stop)
EXO_DESCRIBE_ENUM(FinishReason, stop, length)
template <>
inline constexpr bool names_stay_lower_case<FinishReason> = true;
EXO_DESCRIBE(Usage, prompt_tokens, completion_tokens, cached_tokens)
EXO_DESCRIBE(
    GenerationStats,
    prompt_tokens_per_second,
    generation_tokens_per_second,
    drafted_tokens,
    accepted_tokens
)
EXO_DESCRIBE(PrefillProgress, processed_tokens, total_tokens)
EXO_DESCRIBE(TokenDelta, number, text, token_count)
EXO_DESCRIBE(GenerationFinished, finish_reason, usage, stats)
EXO_DESCRIBE(GenerationFailed, code, message)

} // namespace exo::model
