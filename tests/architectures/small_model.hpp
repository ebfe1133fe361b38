// SPDX-License-Identifier: Apache-2.0
//
// Small random models, one for each architecture that llama.cpp knows. llama.cpp is given a header
// and asked which tensors it wants; these get weights from a generator seeded by their names, and
// header and weights become a GGUF file. Such a file goes through the same loader as a real one.
//
// The headers follow llama.cpp's tests/test-llama-archs.cpp: which values an architecture needs to
// be built at all is known there.
#pragma once

#include "base/result.hpp"

#include <string>
#include <vector>

namespace exo::architectures {

enum class Variant {
    dense,
    experts,
    one_kv_head, // That all four heads share: fewer than ranks.
    tied_output, // The token embeddings are also the output.
};

[[nodiscard]] std::string to_string(Variant variant);

struct SmallModel {
    std::string architecture;
    Variant variant = Variant::dense;
};

// All that llama.cpp names, in its order, each in the variants that it has.
[[nodiscard]] std::vector<SmallModel> small_models();

// Error: unsupported, with llama.cpp's reason.
[[nodiscard]] Result<void> write_small_model(SmallModel const& model, std::string const& path);

} // namespace exo::architectures
