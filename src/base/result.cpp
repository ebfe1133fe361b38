// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

#include <cerrno>
#include <stdexcept>

namespace exo {

char const* to_string(Errc code) {
    switch (code) {
    case Errc::invalid_argument:
        return "invalid_argument";
    case Errc::not_found:
        return "not_found";
    case Errc::conflict:
        return "conflict";
    case Errc::unavailable:
        return "unavailable";
    case Errc::timed_out:
        return "timed_out";
    case Errc::cancelled:
        return "cancelled";
    case Errc::limit:
        return "limit";
    case Errc::protocol:
        return "protocol";
    case Errc::corrupt:
        return "corrupt";
    case Errc::io:
        return "io";
    case Errc::unsupported:
        return "unsupported";
    case Errc::internal:
        return "internal";
    }
    return "unknown";
}

Error io_error(std::string const& what, std::error_code error) {
    Errc code = Errc::io;
    if (error == std::errc::timed_out) {
        code = Errc::timed_out;
    } else if (error == std::errc::operation_canceled) {
        code = Errc::cancelled;
    }
    return Error(code, what + ": " + error.message());
}

Error errno_error(std::string const& what) {
    return io_error(what, std::error_code(errno, std::generic_category()));
}

void throw_exception_from_error(Error const& error, boost::source_location const&) {
    throw std::runtime_error(error.text());
}

} // namespace exo
