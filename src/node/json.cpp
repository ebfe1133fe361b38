// SPDX-License-Identifier: Apache-2.0
#include "node/json.hpp"

#include "model/json_codec.hpp"

EXO_INSTANTIATE_CODEC(exo::node::OpenTask)
EXO_INSTANTIATE_CODEC(exo::node::ChooseInstance)
EXO_INSTANTIATE_CODEC(exo::node::ChosenInstance)
EXO_INSTANTIATE_CODEC(exo::node::JoinGroup)
EXO_INSTANTIATE_CODEC(exo::node::GroupComplete)
EXO_INSTANTIATE_CODEC(exo::node::ProbeModel)
EXO_INSTANTIATE_CODEC(exo::node::ProbedModel)
EXO_INSTANTIATE_CODEC(exo::node::ProbeOutput)
