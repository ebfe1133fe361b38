// SPDX-License-Identifier: Apache-2.0
#include "engine/load/model_files.hpp"

#include "base/assert.hpp"
#include "base/text.hpp"
#include "engine/cluster_device/pages.hpp"
#include "engine/load/log_capture.hpp"

#include <fmt/core.h>
#include <gguf.h>
#include <llama.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace exo::engine {
namespace {

constexpr std::size_t magic_bytes = 4;
// What is looked at to say what a file is if it is not GGUF.
constexpr std::size_t beginning_bytes_max = 256;
// Of a model in several files; llama.cpp's names have five digits.
constexpr std::uint32_t parts_max = 99'999;

struct GgufDeleter {
    void operator()(gguf_context* context) const { gguf_free(context); }
};

using GgufPtr = std::unique_ptr<gguf_context, GgufDeleter>;

// In nanoseconds, if the file system knows them.
std::int64_t time_of_change(struct stat const& status) {
#ifdef __APPLE__
    auto const time = status.st_mtimespec;
#else
    auto const time = status.st_mtim;
#endif
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Error not_gguf(std::string const& path, std::uint64_t bytes, std::string_view beginning) {
    auto const size = format_size(bytes);
    if (beginning.starts_with("version https://git-lfs")) {
        return {
            Errc::corrupt,
            fmt::format(
                "{} is a Git LFS pointer ({} bytes of text), not the model itself: download the "
                "file that it points to",
                path,
                bytes
            )
        };
    }
    bool const text = std::ranges::all_of(beginning, [](char c) {
        return c == '\n' || c == '\r' || c == '\t' || static_cast<unsigned char>(c) >= ' ';
    });
    if (text && is_utf8(utf8_prefix(beginning, beginning.size()))) {
        auto const line = beginning.substr(0, beginning.find_first_of("\r\n"));
        return {
            Errc::corrupt,
            fmt::format("{} ({}) is text, not a GGUF file: \"{}\"", path, size, line.substr(0, 60))
        };
    }
    return {
        Errc::corrupt,
        fmt::format(
            "{} ({}) is not a GGUF file: it begins with {}, not with \"GGUF\"",
            path,
            size,
            to_hex(as_bytes(beginning.substr(0, magic_bytes)))
        )
    };
}

Result<void> check_beginning(std::string const& path, int descriptor, std::uint64_t bytes) {
    std::string beginning(std::min<std::uint64_t>(bytes, beginning_bytes_max), '\0');
    auto const got = pread(descriptor, beginning.data(), beginning.size(), 0);
    if (got < 0) {
        return errno_error("cannot read " + path);
    }
    beginning.resize(static_cast<std::size_t>(got));
    if (beginning.empty()) {
        return Error(Errc::corrupt, path + " is empty, not a GGUF file");
    }
    if (!beginning.starts_with("GGUF")) {
        return not_gguf(path, bytes, beginning);
    }
    return {};
}

// A count in the header, in any of the types that writers use; otherwise if there is none.
std::uint32_t number(gguf_context const* header, std::string const& key, std::uint32_t otherwise) {
    auto const id = gguf_find_key(header, key.c_str());
    if (id < 0) {
        return otherwise;
    }
    switch (gguf_get_kv_type(header, id)) {
    case GGUF_TYPE_UINT16:
        return gguf_get_val_u16(header, id);
    case GGUF_TYPE_UINT32:
        return gguf_get_val_u32(header, id);
    case GGUF_TYPE_INT32:
        return static_cast<std::uint32_t>(std::max(0, gguf_get_val_i32(header, id)));
    default: // Not a count.
        return otherwise;
    }
}

} // namespace

Result<std::unique_ptr<ModelFiles>>
ModelFiles::open(std::vector<std::string> const& paths, ReadAt read_at) {
    if (paths.empty()) {
        return Error(Errc::invalid_argument, "no model file was named");
    }
    std::unique_ptr<ModelFiles> made(new ModelFiles);
    made->read_at_ = read_at ? std::move(read_at) : ReadAt(::pread);
    for (auto const& path : paths) {
        EXO_TRY(made->add(path));
    }
    if (paths.size() == 1) {
        EXO_TRY(made->add_other_parts());
    }
    EXO_TRY(made->check_parts());
    if (made->architecture_.empty() || made->layer_count_ == 0) {
        return Error(
            Errc::corrupt,
            paths.front() + " holds no language model: its header names no architecture with layers"
        );
    }
    return made;
}

ModelFiles::~ModelFiles() {
    for (auto const& file : files_) {
        if (file.reserved != nullptr) {
            munmap(file.reserved, file.bytes);
        }
        close(file.descriptor);
    }
}

Result<void> ModelFiles::add(std::string const& path) {
    // Not blocking: a named pipe would wait for a writer before it can be refused.
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        auto error = errno_error("cannot open model file " + path);
        return errno == ENOENT ? Error(Errc::not_found, error.text()) : error;
    }
    files_.push_back({.path = path, .descriptor = descriptor});
    struct stat status{};
    if (fstat(descriptor, &status) != 0) {
        return errno_error("cannot look at model file " + path);
    }
    if (!S_ISREG(status.st_mode)) {
        return Error(Errc::invalid_argument, path + " is not a file");
    }
    auto& file = files_.back();
    file.bytes = static_cast<std::uint64_t>(status.st_size);
    file.device = status.st_dev;
    file.inode = status.st_ino;
    file.changed = time_of_change(status);
    EXO_TRY(check_beginning(path, descriptor, file.bytes));
    void* reserved =
        mmap(nullptr, file.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) {
        return errno_error("cannot reserve address space for " + path);
    }
    file.reserved = static_cast<std::uint8_t*>(reserved);
    return read_header(static_cast<std::uint32_t>(files_.size() - 1));
}

Result<void> ModelFiles::read_header(std::uint32_t index) {
    auto& file = files_[index];
    LogCapture log;
    GgufPtr const header(gguf_init_from_file(file.path.c_str(), {.no_alloc = true, .ctx = nullptr})
    );
    if (!header) {
        return Error(
            Errc::corrupt,
            fmt::format(
                "{} is damaged or cut off within its header (the file has {} bytes): {}",
                file.path,
                file.bytes,
                log.take_errors()
            )
        );
    }
    if (auto const id = gguf_find_key(header.get(), "general.architecture");
        id >= 0 && gguf_get_kv_type(header.get(), id) == GGUF_TYPE_STRING &&
        architecture_.empty()) {
        architecture_ = gguf_get_val_str(header.get(), id);
        layer_count_ = number(header.get(), architecture_ + ".block_count", 0);
        context_length_ = number(header.get(), architecture_ + ".context_length", 0);
    }
    file.part = number(header.get(), "split.no", 0);
    file.parts = std::max(number(header.get(), "split.count", 1), 1u);
    file.tensors_in_all = number(header.get(), "split.tensors.count", 0);
    file.header_bytes = gguf_get_data_offset(header.get());
    return add_tensors(index, header.get());
}

Result<void> ModelFiles::add_tensors(std::uint32_t index, gguf_context const* header) {
    auto const& file = files_[index];
    for (std::int64_t i = 0; i < gguf_get_n_tensors(header); ++i) {
        std::string const name = gguf_get_tensor_name(header, i);
        TensorEntry entry;
        entry.place = {index, file.header_bytes + gguf_get_tensor_offset(header, i)};
        entry.bytes = gguf_get_tensor_size(header, i);
        entry.type = gguf_get_tensor_type(header, i);
        std::copy_n(gguf_get_tensor_ne(header, i), GGML_MAX_DIMS, entry.shape.begin());
        if (entry.bytes > file.bytes || entry.place.offset > file.bytes - entry.bytes) {
            return Error(
                Errc::corrupt,
                fmt::format(
                    "{} is truncated: tensor {} is at offset {} with {} bytes, so the file must "
                    "have at least {} bytes, and it has {}",
                    file.path,
                    name,
                    entry.place.offset,
                    entry.bytes,
                    entry.place.offset + entry.bytes,
                    file.bytes
                )
            );
        }
        if (auto const [known, is_new] = tensors_.emplace(name, entry); !is_new) {
            return Error(
                Errc::corrupt,
                fmt::format(
                    "tensor {} is in {} and also in {}: they are parts of different models",
                    name,
                    files_[known->second.place.file].path,
                    file.path
                )
            );
        }
    }
    return {};
}

// The first part alone was named: the others have its name with another number.
Result<void> ModelFiles::add_other_parts() {
    auto const first = files_.front();
    if (first.part != 0 || first.parts == 1 || first.parts > parts_max) {
        return {};
    }
    auto const count = static_cast<std::int32_t>(first.parts);
    std::string prefix(first.path.size() + 1, '\0');
    auto const length =
        llama_split_prefix(prefix.data(), prefix.size(), first.path.c_str(), 0, count);
    if (length <= 0) {
        return {}; // Named in another way: all must be named.
    }
    prefix.resize(static_cast<std::size_t>(length));
    for (std::int32_t number = 1; number < count; ++number) {
        auto path = fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number + 1, count);
        if (auto added = add(path); !added) {
            return Error(
                added.error().code(),
                fmt::format(
                    "part {} of {} of the model: {}", number + 1, count, added.error().text()
                )
            );
        }
    }
    return {};
}

Result<void> ModelFiles::check_parts() const {
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
        auto const& file = files_[i];
        if (file.parts != files_.size() || file.part != i) {
            return Error(
                Errc::invalid_argument,
                fmt::format(
                    "{} is part {} of {}: all parts are needed, in order, and it was named as part "
                    "{} of {}",
                    file.path,
                    file.part + 1,
                    file.parts,
                    i + 1,
                    files_.size()
                )
            );
        }
    }
    auto const& first = files_.front();
    if (first.tensors_in_all != 0 && first.tensors_in_all != tensors_.size()) {
        return Error(
            Errc::corrupt,
            fmt::format(
                "the {} parts from {} on have {} tensors, and the first says {}: one of them is of "
                "another model",
                files_.size(),
                first.path,
                tensors_.size(),
                first.tensors_in_all
            )
        );
    }
    return {};
}

Result<void> ModelFiles::unchanged() const {
    for (auto const& file : files_) {
        struct stat now{};
        struct stat by_path{};
        if (fstat(file.descriptor, &now) != 0) {
            return errno_error("cannot look at model file " + file.path);
        }
        // A file that was only deleted is still all there for us.
        bool const replaced = stat(file.path.c_str(), &by_path) == 0 &&
                              (by_path.st_dev != file.device || by_path.st_ino != file.inode);
        bool const written = static_cast<std::uint64_t>(now.st_size) != file.bytes ||
                             time_of_change(now) != file.changed;
        if (replaced || written) {
            return Error(
                Errc::conflict,
                fmt::format(
                    "{} was {} while it was being loaded; load it again",
                    file.path,
                    replaced ? "replaced" : "written to"
                )
            );
        }
    }
    return {};
}

Result<Bytes> ModelFiles::headers() const {
    Bytes all;
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
        auto const start = all.size();
        auto const bytes = std::min(files_[i].header_bytes, files_[i].bytes);
        all.resize(start + bytes);
        EXO_TRY(read("(header)", {i, 0}, all.data() + start, bytes));
    }
    return all;
}

TensorEntry const* ModelFiles::find(std::string const& tensor) const {
    auto const found = tensors_.find(tensor);
    return found != tensors_.end() ? &found->second : nullptr;
}

void const* ModelFiles::address(FilePlace place) const {
    EXO_ASSERT(place.file < files_.size());
    return files_[place.file].reserved + place.offset;
}

std::optional<FilePlace> ModelFiles::place_of(void const* data) const {
    auto const* const address = static_cast<std::uint8_t const*>(data);
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
        auto const& file = files_[i];
        if (address >= file.reserved && address < file.reserved + file.bytes) {
            return FilePlace{i, static_cast<std::uint64_t>(address - file.reserved)};
        }
    }
    return std::nullopt;
}

Result<void> ModelFiles::make_resident(std::string const& tensor, TensorEntry const& entry) {
    auto const& file = files_[entry.place.file];
    auto const first = entry.place.offset / page_bytes() * page_bytes();
    auto const last = entry.place.offset + entry.bytes;
    if (mprotect(file.reserved + first, last - first, PROT_READ | PROT_WRITE) != 0) {
        return errno_error("cannot make room for tensor " + tensor);
    }
    return read(tensor, entry.place, file.reserved + entry.place.offset, entry.bytes);
}

void ModelFiles::read_ahead(FilePlace place, std::uint64_t bytes) const {
#ifdef POSIX_FADV_WILLNEED // Advice: whether it is taken does not matter.
    (void)posix_fadvise(
        files_[place.file].descriptor,
        static_cast<off_t>(place.offset),
        static_cast<off_t>(bytes),
        POSIX_FADV_WILLNEED
    );
#else
    (void)place;
    (void)bytes;
#endif
}

std::string ModelFiles::place_words(std::string const& tensor, FilePlace place) const {
    return fmt::format(
        "tensor {} at offset {} of {}", tensor, place.offset, files_[place.file].path
    );
}

Result<void>
ModelFiles::read(std::string const& tensor, FilePlace place, void* into, std::size_t bytes) const {
    auto const& file = files_[place.file];
    auto* to = static_cast<std::uint8_t*>(into);
    std::size_t done = 0;
    while (done < bytes) {
        auto const got = read_at_(
            file.descriptor, to + done, bytes - done, static_cast<off_t>(place.offset + done)
        );
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return errno_error(
                fmt::format("cannot read {} bytes of {}", bytes, place_words(tensor, place))
            );
        }
        if (got == 0) {
            return Error(
                Errc::corrupt,
                fmt::format(
                    "{} is truncated: it ended at {} while {} bytes of {} were read",
                    file.path,
                    place.offset + done,
                    bytes,
                    place_words(tensor, place)
                )
            );
        }
        done += static_cast<std::size_t>(got);
        bytes_read_ += static_cast<std::uint64_t>(got);
    }
    return {};
}

} // namespace exo::engine
