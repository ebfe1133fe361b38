// SPDX-License-Identifier: Apache-2.0
//
// Expected failures are values: Result<T> is a T or an Error. The text of an error is for a person:
// what failed, where, with which numbers, and what can be done. See STYLE.md 0.2 and 3.2.4.
#pragma once

#include <boost/system/result.hpp>

#include <string>
#include <system_error>

namespace exo {

// What a caller can tell apart; the text says the rest.
enum class Errc {
    invalid_argument = 1, // The caller's input is wrong: HTTP 400.
    not_found,            // HTTP 404.
    conflict,             // Refused in this state, with the reason: HTTP 409.
    unavailable,          // Not now; trying again may help: HTTP 503.
    timed_out,
    cancelled,
    limit,    // One of our limits was reached.
    protocol, // A peer broke a protocol.
    corrupt,  // Data on disk or from a file is damaged or of a wrong kind.
    io,       // The operating system refused; the text has its words.
    unsupported,
    internal, // None of the above, and probably a bug.
};

[[nodiscard]] char const* to_string(Errc code);

class Error {
public:
    // Only because boost::system::result 1.81 wants it for error() of a value.
    Error()
        : code_(Errc::internal) {}

    Error(Errc code, std::string text)
        : code_(code)
        , text_(std::move(text)) {}

    [[nodiscard]] Errc code() const { return code_; }

    [[nodiscard]] std::string const& text() const { return text_; }

    bool operator==(Error const&) const = default;

private:
    Errc code_;
    std::string text_;
};

template <class T = void>
using Result = boost::system::result<T, Error>;

// An error of the operating system or Asio: "<what>: <its message>". Code: io, or timed_out and
// cancelled where the error says so.
[[nodiscard]] Error io_error(std::string const& what, std::error_code error);

// The same from errno.
[[nodiscard]] Error errno_error(std::string const& what);

// Needed by boost::system::result::value(), which we do not use where an error is expected.
[[noreturn]] void throw_exception_from_error(Error const& error, boost::source_location const& at);

} // namespace exo

// Returns the error of a Result from the current function, else goes on.
#define EXO_TRY(expression)                                                                        \
    do {                                                                                           \
        if (auto exo_try_result = (expression); !exo_try_result) {                                 \
            return exo_try_result.error();                                                         \
        }                                                                                          \
    } while (false)
