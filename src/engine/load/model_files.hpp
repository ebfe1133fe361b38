// SPDX-License-Identifier: Apache-2.0
//
// The GGUF files of one model, checked before llama.cpp sees them: kind, header, and that every
// tensor lies within its file. They are also the source of weights: each file has as much reserved
// address space as bytes, and a pointer into it stands for a place in the file.
//
// One thread, but for read(), which any may call.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "engine/cluster_device/file_source.hpp"

#include <ggml.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

struct gguf_context;

namespace exo::engine {

// pread(2), or what stands in for it.
using ReadAt = std::function<ssize_t(int descriptor, void* into, std::size_t bytes, off_t offset)>;

struct TensorEntry {
    FilePlace place;
    std::uint64_t bytes = 0;
    ggml_type type = GGML_TYPE_F32;
    std::array<std::int64_t, GGML_MAX_DIMS> shape{};
};

class ModelFiles final : public FileSource {
public:
    // All parts of a model in order, or the first one alone if the others have their usual names.
    // Errors: not_found, io, corrupt: a file that is not GGUF, is a pointer to one, is shorter than
    // its header says, or is no part of this model; the text names the file.
    [[nodiscard]] static Result<std::unique_ptr<ModelFiles>>
    open(std::vector<std::string> const& paths, ReadAt read_at = {});
    ~ModelFiles() override;

    [[nodiscard]] std::size_t count() const { return files_.size(); }

    [[nodiscard]] std::string const& path(std::size_t file) const { return files_[file].path; }

    // All before the first tensor.
    [[nodiscard]] std::uint64_t header_bytes(std::size_t file) const {
        return files_[file].header_bytes;
    }

    // What tells this model from another: the headers of all files.
    [[nodiscard]] Result<Bytes> headers() const;

    [[nodiscard]] TensorEntry const* find(std::string const& tensor) const;

    [[nodiscard]] std::map<std::string, TensorEntry> const& tensors() const { return tensors_; }

    // Error: conflict, if a file is not what it was when it was opened: llama.cpp opens it by its
    // path again, and another file may have taken its place; or somebody writes to it.
    [[nodiscard]] Result<void> unchanged() const;

    // What read() has brought so far.
    [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

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

    // That these bytes will be read soon.
    void read_ahead(FilePlace place, std::uint64_t bytes) const;

private:
    struct File {
        std::string path;
        int descriptor = -1;
        std::uint64_t bytes = 0;
        std::uint64_t header_bytes = 0;
        std::uint8_t* reserved = nullptr;
        dev_t device = 0;
        ino_t inode = 0;
        std::int64_t changed = 0;
        // Of a model in several files.
        std::uint32_t part = 0;
        std::uint32_t parts = 1;
        std::uint32_t tensors_in_all = 0; // 0: not told.
    };

    ModelFiles() = default;
    Result<void> add(std::string const& path);
    Result<void> add_other_parts();
    Result<void> read_header(std::uint32_t index);
    Result<void> add_tensors(std::uint32_t index, gguf_context const* header);
    [[nodiscard]] Result<void> check_parts() const;
    [[nodiscard]] std::string place_words(std::string const& tensor, FilePlace place) const;

    std::vector<File> files_;
    std::map<std::string, TensorEntry> tensors_;
    std::string architecture_;
    std::uint32_t layer_count_ = 0;
    std::uint32_t context_length_ = 0;
    ReadAt read_at_;
    mutable std::atomic<std::uint64_t> bytes_read_{0};
    std::optional<Tensor> current_;
};

} // namespace exo::engine
