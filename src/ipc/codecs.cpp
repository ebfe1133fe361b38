// SPDX-License-Identifier: Apache-2.0
//
// The formats of this layer's messages, compiled once.
#include "ipc/describe.hpp"
#include "model/json_codec.hpp"

EXO_INSTANTIATE_CODEC(exo::ipc::ToRunner)
EXO_INSTANTIATE_CODEC(exo::ipc::FromRunner)
