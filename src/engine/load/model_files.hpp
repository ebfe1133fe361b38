// SPDX-License-Identifier: Apache-2.0
//
// The GGUF files of one model, checked before llama.cpp sees them: kind, header, and that every
// tensor lies within its file. They are also the source of weights: each file has as much reserved
// address space as bytes, and a pointer into it stands for a place in the file.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "engine/cluster_device/file_source.hpp"

#include <ggml.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace exo::engine {

struct TensorEntry {
    FilePlace place;
    std::uint64_t bytes = 0;
    ggml_type type = GGML_TYPE_F32;
    std::array<std::int64_t, GGML_MAX_DIMS> shape{};
};

class ModelFiles final : public FileSource {
public:
    // Errors: not_found, io, corrupt: a file that is not GGUF, is a pointer to one, or is shorter
    // than its header says; the text names the file.
    [[nodiscard]] static Result<std::unique_ptr<ModelFiles>>
    open(std::vector<std::string> const& paths);
    ~ModelFiles() override;

    [[nodiscard]] std::size_t count() const { return files_.size(); }

    [[nodiscard]] std::string const& path(std::size_t file) const { return files_[file].path; }

    [[nodiscard]] int descriptor(std::size_t file) const { return files_[file].descriptor; }

    // All before the first tensor.
    [[nodiscard]] std::uint64_t header_bytes(std::size_t file) const {
        return files_[file].header_bytes;
    }

    // What tells this model from another: the headers of all files.
    [[nodiscard]] Result<Bytes> headers() const;

    [[nodiscard]] TensorEntry const* find(std::string const& tensor) const;

    [[nodiscard]] std::string const& architecture() const { return architecture_; }

    [[nodiscard]] std::uint32_t layer_count() const { return layer_count_; }

    [[nodiscard]] std::uint32_t context_length() const { return context_length_; }

    // The address that stands for the place.
    [[nodiscard]] void const* address(FilePlace place) const;
    [[nodiscard]] std::optional<FilePlace> place_of(void const* data) const override;

    [[nodiscard]] std::optional<Tensor> current() const override { return current_; }

    void set_current(std::optional<Tensor> tensor) { current_ = tensor; }

    // Brings the real bytes to the address that stands for them.
    Result<void> make_resident(std::string const& tensor, TensorEntry const& entry);

    // All of `into`, or an error that says which tensor the file is too short for.
    Result<void>
    read(std::string const& tensor, FilePlace place, void* into, std::size_t bytes) const;

private:
    struct File {
        std::string path;
        int descriptor = -1;
        std::uint64_t bytes = 0;
        std::uint64_t header_bytes = 0;
        std::uint8_t* reserved = nullptr;
    };

    ModelFiles() = default;
    Result<void> add(std::string const& path);
    Result<void> read_header(std::uint32_t index);
    Result<void> check_split(std::uint32_t index, std::uint32_t number, std::uint32_t count) const;

    std::vector<File> files_;
    std::map<std::string, TensorEntry> tensors_;
    std::string architecture_;
    std::uint32_t layer_count_ = 0;
    std::uint32_t context_length_ = 0;
    std::size_t files_wanted_ = 0; // As many as paths were given.
    std::optional<Tensor> current_;
};

} // namespace exo::engine
