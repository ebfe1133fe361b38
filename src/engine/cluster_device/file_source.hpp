// SPDX-License-Identifier: Apache-2.0
//
// Weights on their way from a file to a device. llama.cpp is handed pointers into reserved address
// space instead of bytes; a device turns them back into places in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace exo::engine {

struct FilePlace {
    std::uint32_t file = 0; // Of the splits, in order.
    std::uint64_t offset = 0;
};

// `count` rows of `bytes`, from one stride apart in the file to another in memory.
struct WeightRead {
    FilePlace from;
    void* to = nullptr;
    std::size_t bytes = 0;
    std::size_t count = 1;
    std::size_t file_stride = 0;
    std::size_t memory_stride = 0;
};

class FileSource {
public:
    virtual ~FileSource() = default;

    // The place that a pointer stands for; nothing for a pointer to real memory.
    [[nodiscard]] virtual std::optional<FilePlace> place_of(void const* data) const = 0;

    // The tensor that is being set now. Its bytes may come by way of a copy that llama.cpp made
    // (a bias divided by the number of ranks); what a rank then needs is all of it.
    struct Tensor {
        FilePlace place;
        std::size_t bytes = 0;
    };

    [[nodiscard]] virtual std::optional<Tensor> current() const = 0;
};

} // namespace exo::engine
