// SPDX-License-Identifier: Apache-2.0
#include "storage/files/files.hpp"

#include "base/entropy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace exo::storage {
namespace {

// Closes on every way out.
class Descriptor {
public:
    explicit Descriptor(int value)
        : value_(value) {}

    Descriptor(Descriptor&& other) noexcept
        : value_(std::exchange(other.value_, -1)) {}

    Descriptor(Descriptor const&) = delete;
    Descriptor& operator=(Descriptor const&) = delete;
    Descriptor& operator=(Descriptor&&) = delete;

    ~Descriptor() {
        if (value_ >= 0) {
            ::close(value_);
        }
    }

    [[nodiscard]] bool is_open() const { return value_ >= 0; }

    [[nodiscard]] int value() const { return value_; }

private:
    int value_;
};

Descriptor open_file(std::filesystem::path const& path, int flags, unsigned mode = 0) {
    while (true) {
        int const file = ::open(path.c_str(), flags | O_CLOEXEC, mode);
        if (file >= 0 || errno != EINTR) {
            return Descriptor(file);
        }
    }
}

Result<> write_all(Descriptor const& file, BytesView bytes, std::string const& name) {
    while (!bytes.empty()) {
        auto const written = ::write(file.value(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0) {
            return errno_error("cannot write " + name);
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
}

Result<> write_and_sync(std::filesystem::path const& path, BytesView bytes, unsigned mode) {
    auto const file = open_file(path, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (!file.is_open()) {
        return errno_error("cannot create " + path.string());
    }
    EXO_TRY(write_all(file, bytes, path.string()));
    // The umask may have taken bits away that the caller asked for.
    if (::fchmod(file.value(), mode) != 0 || ::fsync(file.value()) != 0) {
        return errno_error("cannot write " + path.string());
    }
    return {};
}

// Without this a rename may be undone by a power cut. Some file systems cannot sync a folder.
void sync_folder(std::filesystem::path const& folder) {
    auto const file = open_file(folder, O_RDONLY | O_DIRECTORY);
    if (file.is_open()) {
        ::fsync(file.value());
    }
}

struct OpenFile {
    Descriptor file;
    std::uint64_t bytes_count = 0;
    mode_t mode = 0;
};

Result<OpenFile> open_to_read(std::filesystem::path const& path) {
    // Not blocking: a pipe put in place of a file must not hang the caller.
    auto file = open_file(path, O_RDONLY | O_NONBLOCK);
    struct stat status{};
    if (!file.is_open() || ::fstat(file.value(), &status) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            return Error(Errc::not_found, "there is no file " + path.string());
        }
        return errno_error("cannot read " + path.string());
    }
    if (!S_ISREG(status.st_mode)) {
        return Error(Errc::io, path.string() + " is not a plain file");
    }
    return OpenFile{
        std::move(file), static_cast<std::uint64_t>(status.st_size), status.st_mode & 07777
    };
}

Result<Bytes> read_at(
    Descriptor const& file,
    std::uint64_t offset,
    std::uint64_t bytes_count,
    std::filesystem::path const& path
) {
    Bytes bytes(bytes_count);
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        auto const got = ::pread(
            file.value(),
            bytes.data() + filled,
            bytes.size() - filled,
            static_cast<off_t>(offset + filled)
        );
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return errno_error("cannot read " + path.string());
        }
        if (got == 0) {
            break; // It has become shorter since it was opened.
        }
        filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

Result<Bytes>
read_whole(OpenFile const& opened, std::filesystem::path const& path, std::uint64_t bytes_max) {
    if (opened.bytes_count > bytes_max) {
        return Error(
            Errc::limit,
            fmt::format(
                "{} has {} bytes, at most {} make sense",
                path.string(),
                opened.bytes_count,
                bytes_max
            )
        );
    }
    return read_at(opened.file, 0, opened.bytes_count, path);
}

std::filesystem::path folder_of(std::filesystem::path const& path) {
    return path.has_parent_path() ? path.parent_path() : ".";
}

} // namespace

Result<> make_folder(std::filesystem::path const& path) {
    std::filesystem::path made;
    for (auto const& part : path) {
        made /= part;
        if (::mkdir(made.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR) {
            int const reason = errno;
            std::error_code ignored;
            if (!std::filesystem::is_directory(made, ignored)) {
                errno = reason;
                return errno_error("cannot create the folder " + made.string());
            }
        }
    }
    std::error_code ignored;
    if (!path.empty() && !std::filesystem::is_directory(path, ignored)) {
        return Error(Errc::io, path.string() + " is in the way: it is not a folder");
    }
    return {};
}

Result<> atomic_write(std::filesystem::path const& path, BytesView bytes, unsigned mode) {
    auto const folder = path.parent_path();
    EXO_TRY(make_folder(folder));
    auto temporary = path;
    temporary += "." + random_uuid().substr(0, 8) + ".tmp";
    auto const written = write_and_sync(temporary, bytes, mode);
    if (!written) {
        ::unlink(temporary.c_str());
        return written.error();
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        auto const error = errno_error("cannot replace " + path.string());
        ::unlink(temporary.c_str());
        return error;
    }
    sync_folder(folder_of(path));
    return {};
}

Result<bool> remove_file(std::filesystem::path const& path) {
    if (::unlink(path.c_str()) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            return false;
        }
        return errno_error("cannot remove " + path.string());
    }
    sync_folder(folder_of(path));
    return true;
}

Result<Bytes> read_file(std::filesystem::path const& path, std::uint64_t bytes_max) {
    auto const opened = open_to_read(path);
    return opened ? read_whole(*opened, path, bytes_max) : opened.error();
}

Result<SecretFile> read_secret_file(std::filesystem::path const& path, std::uint64_t bytes_max) {
    auto const opened = open_to_read(path);
    if (!opened) {
        return opened.error();
    }
    bool const is_open = (opened->mode & (S_IRWXG | S_IRWXO)) != 0;
    if (is_open && ::fchmod(opened->file.value(), S_IRUSR | S_IWUSR) != 0) {
        return errno_error(fmt::format(
            "{} holds a secret and others may read it (mode {:04o}); it cannot be set to 0600",
            path.string(),
            opened->mode
        ));
    }
    auto bytes = read_whole(*opened, path, bytes_max);
    if (!bytes) {
        return bytes.error();
    }
    return SecretFile{std::move(*bytes), is_open};
}

Result<Bytes>
read_range(std::filesystem::path const& path, std::uint64_t offset, std::uint64_t bytes_count) {
    auto const opened = open_to_read(path);
    if (!opened) {
        return opened.error();
    }
    if (offset >= opened->bytes_count) {
        return Bytes();
    }
    return read_at(opened->file, offset, std::min(bytes_count, opened->bytes_count - offset), path);
}

} // namespace exo::storage
