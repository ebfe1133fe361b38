// SPDX-License-Identifier: Apache-2.0
//
// Functions of a backend that may be a plug-in: they are found by name, not linked.
#pragma once

#include <ggml-backend.h>

namespace exo::engine {

// The function that the device's registry has under that name; null if there is none, or no device.
template <class Function>
[[nodiscard]] Function* backend_function(ggml_backend_dev_t device, char const* name) {
    auto* const registry = device != nullptr ? ggml_backend_dev_backend_reg(device) : nullptr;
    return registry == nullptr
               ? nullptr
               : reinterpret_cast<Function*>(ggml_backend_reg_get_proc_address(registry, name));
}

} // namespace exo::engine
