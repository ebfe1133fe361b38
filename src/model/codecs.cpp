// SPDX-License-Identifier: Apache-2.0
//
// The documents of model/ that are written and read alone.
#include "model/json_codec.hpp"

EXO_INSTANTIATE_CODEC(exo::model::State)
EXO_INSTANTIATE_CODEC(exo::model::Event)
EXO_INSTANTIATE_CODEC(exo::model::Command)
EXO_INSTANTIATE_CODEC(exo::model::CommandOutcome)
EXO_INSTANTIATE_CODEC(exo::model::Report)
EXO_INSTANTIATE_CODEC(exo::model::Session)
EXO_INSTANTIATE_CODEC(exo::model::Position)
EXO_INSTANTIATE_CODEC(exo::model::ModelCard)
EXO_INSTANTIATE_CODEC(exo::model::Instance)
EXO_INSTANTIATE_CODEC(exo::model::ShardMetadata)
EXO_INSTANTIATE_CODEC(exo::model::Wish)
EXO_INSTANTIATE_CODEC(exo::model::Member)
EXO_INSTANTIATE_CODEC(exo::model::RunnerStatus)
EXO_INSTANTIATE_CODEC(exo::model::Task)
EXO_INSTANTIATE_CODEC(exo::model::NodeInfo)
EXO_INSTANTIATE_CODEC(exo::model::NodeIdentity)
EXO_INSTANTIATE_CODEC(exo::model::NodeMemory)
EXO_INSTANTIATE_CODEC(exo::model::NodeDisk)
EXO_INSTANTIATE_CODEC(exo::model::NetworkInterface)
EXO_INSTANTIATE_CODEC(exo::model::Memory)
EXO_INSTANTIATE_CODEC(exo::model::GenerationRequest)
EXO_INSTANTIATE_CODEC(exo::model::GenerationEvent)
EXO_INSTANTIATE_CODEC(exo::model::PrefillProgress)

EXO_INSTANTIATE_ENUM_NAMES(exo::model::Sharding)
EXO_INSTANTIATE_ENUM_NAMES(exo::model::InstanceMeta)
EXO_INSTANTIATE_ENUM_NAMES(exo::model::TaskStatus)
EXO_INSTANTIATE_ENUM_NAMES(exo::model::DeletionReason)
EXO_INSTANTIATE_ENUM_NAMES(exo::model::FinishReason)
