// SPDX-License-Identifier: Apache-2.0
#include "net/crypto/file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace exo::net {
namespace {

class File {
public:
    explicit File(int descriptor)
        : descriptor_(descriptor) {}

    ~File() {
        if (descriptor_ >= 0) {
            ::close(descriptor_);
        }
    }

    File(File const&) = delete;
    File& operator=(File const&) = delete;

    [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

    [[nodiscard]] int descriptor() const { return descriptor_; }

private:
    int descriptor_;
};

Result<void> write_all(int descriptor, BytesView bytes, std::string const& name) {
    while (!bytes.empty()) {
        auto const written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR) {
            return errno_error("cannot write " + name);
        }
        bytes = bytes.subspan(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
    if (::fsync(descriptor) != 0) {
        return errno_error("cannot force to disk " + name);
    }
    return {};
}

Result<void> write_new_file(std::filesystem::path const& file, BytesView bytes) {
    File const out(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR)
    );
    if (!out.is_open()) {
        return errno_error("cannot create " + file.string());
    }
    return write_all(out.descriptor(), bytes, file.string());
}

// The rename itself lasts only once the folder is on disk; not all file systems can do that.
void sync_folder(std::filesystem::path const& folder) {
    File const opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.is_open()) {
        (void)::fsync(opened.descriptor());
    }
}

Result<void> ensure_folder(std::filesystem::path const& folder) {
    std::error_code error;
    if (std::filesystem::create_directories(folder, error)) {
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    }
    if (error) {
        return io_error("cannot create folder " + folder.string(), error);
    }
    return {};
}

} // namespace

Result<Bytes> read_small_file(std::filesystem::path const& file, std::size_t bytes_max) {
    File const in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in.is_open()) {
        if (errno == ENOENT) {
            return Error(Errc::not_found, "there is no file " + file.string());
        }
        return errno_error("cannot open " + file.string());
    }
    Bytes bytes(bytes_max + 1);
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        auto const got = ::read(in.descriptor(), bytes.data() + filled, bytes.size() - filled);
        if (got < 0 && errno != EINTR) {
            return errno_error("cannot read " + file.string());
        }
        if (got == 0) {
            break;
        }
        filled += got < 0 ? 0 : static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

Result<void> replace_private_file(std::filesystem::path const& file, BytesView bytes) {
    auto const folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
    EXO_TRY(ensure_folder(folder));
    // The process id: two nodes that start at once on one folder must not share this file.
    auto const temporary =
        std::filesystem::path(file.string() + ".tmp" + std::to_string(::getpid()));
    ::unlink(temporary.c_str()); // Of a crashed process that had our id.
    auto written = write_new_file(temporary, bytes);
    if (written && ::rename(temporary.c_str(), file.c_str()) != 0) {
        written = errno_error("cannot rename " + temporary.string() + " to " + file.string());
    }
    if (!written) {
        ::unlink(temporary.c_str());
        return written;
    }
    sync_folder(folder);
    return {};
}

} // namespace exo::net
