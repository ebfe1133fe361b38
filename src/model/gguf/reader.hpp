// SPDX-License-Identifier: Apache-2.0
//
// Reads forward through the first bytes of a file, whatever they are. Private to this folder.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "model/gguf/header.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace exo::model::gguf {

// Reads forward through the prefix. The first failure stays: `error` for good, `need` when more of
// the file would help. Reads after it fail too.
class Reader {
public:
    Reader(BytesView prefix, std::uint64_t file_bytes, Limits const& limits)
        : prefix_(prefix)
        , file_bytes_(file_bytes)
        , limits_(limits) {}

    [[nodiscard]] std::uint64_t position() const { return position_; }

    [[nodiscard]] Limits const& limits() const { return limits_; }

    [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }

    [[nodiscard]] std::uint64_t left_in_file() const { return file_bytes_ - position_; }

    // The reason why a read returned false.
    [[nodiscard]] Result<Parsed> failure() const {
        if (error_) {
            return *error_;
        }
        return Parsed(NeedMore{need_});
    }

    // Always false, for `return fail(...)`.
    bool fail(Errc code, std::string text) {
        if (!error_ && need_ == 0) {
            error_ = Error(code, std::move(text));
        }
        return false;
    }

    bool take(std::uint64_t count, BytesView& bytes, std::string_view what) {
        if (error_ || need_ != 0) {
            return false;
        }
        if (count > left_in_file()) {
            return fail(
                Errc::corrupt,
                fmt::format(
                    "truncated: {} at byte {} needs {} bytes, but the file has {}",
                    what,
                    position_,
                    count,
                    file_bytes_
                )
            );
        }
        if (count > limits_.header_bytes_max - position_) {
            return fail(
                Errc::corrupt,
                fmt::format("absurd: its header is over {} bytes", limits_.header_bytes_max)
            );
        }
        if (count > prefix_.size() - position_) {
            need_ = position_ + count;
            return false;
        }
        bytes = prefix_.subspan(position_, count);
        position_ += count;
        return true;
    }

    template <class Unsigned>
    bool read(Unsigned& value, std::string_view what) {
        BytesView bytes;
        if (!take(sizeof(Unsigned), bytes, what)) {
            return false;
        }
        std::uint64_t number = 0;
        for (std::size_t i = sizeof(Unsigned); i-- > 0;) {
            number = number << 8 | bytes[i];
        }
        value = static_cast<Unsigned>(number);
        return true;
    }

    bool read_string(std::string& text, std::uint64_t bytes_max, std::string_view what) {
        std::uint64_t length = 0;
        BytesView bytes;
        if (!read(length, what)) {
            return false;
        }
        if (length > bytes_max) {
            return fail(
                Errc::corrupt,
                fmt::format(
                    "absurd: {} at byte {} has {} bytes, at most {} make sense",
                    what,
                    position_ - 8,
                    length,
                    bytes_max
                )
            );
        }
        if (!take(length, bytes, what)) {
            return false;
        }
        text.assign(as_text(bytes));
        return true;
    }

    bool skip_string(std::string_view what) {
        std::uint64_t length = 0;
        BytesView bytes;
        return read(length, what) && take(length, bytes, what);
    }

private:
    BytesView prefix_;
    std::uint64_t file_bytes_;
    Limits const& limits_;
    std::uint64_t position_ = 0;
    std::optional<Error> error_;
    std::uint64_t need_ = 0;
};

} // namespace exo::model::gguf
