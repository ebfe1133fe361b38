// SPDX-License-Identifier: Apache-2.0
#include "net/multistream/negotiation.hpp"

#include "base/assert.hpp"
#include "base/text.hpp"
#include "net/wire/varint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace exo::net::multistream {
namespace {

constexpr std::string_view header = "/multistream/1.0.0";
constexpr std::string_view not_available = "na";
constexpr std::string_view list = "ls";

void append_message(Bytes& to, std::string_view text) {
    EXO_ASSERT(text.size() < message_bytes_max);
    append_varint(to, text.size() + 1);
    append(to, as_bytes(text));
    to.push_back('\n');
}

Error unexpected(std::string_view what, std::string_view message) {
    return Error(Errc::protocol, fmt::format("multistream: {}: '{}'", what, message));
}

} // namespace

Result<std::optional<std::string>> MessageReader::next() {
    auto const length = read_varint(buffer_, message_bytes_max);
    if (!length) {
        return Error(Errc::protocol, "multistream: a message over 1024 bytes (or another PSK)");
    }
    if (!*length || buffer_.size() < (*length)->bytes_count + (*length)->value) {
        return std::optional<std::string>();
    }
    auto const begin = buffer_.begin() + static_cast<std::ptrdiff_t>((*length)->bytes_count);
    auto const end = begin + static_cast<std::ptrdiff_t>((*length)->value);
    std::string text(begin, end);
    buffer_.erase(buffer_.begin(), end);
    if (!text.ends_with('\n') || !is_utf8(text)) {
        return Error(Errc::protocol, "multistream: a message that is no line of text");
    }
    text.pop_back();
    return std::optional(std::move(text));
}

Dialer::Dialer(std::vector<std::string> protocols, Mode mode)
    : protocols_(std::move(protocols))
    , mode_(mode) {
    EXO_ASSERT(!protocols_.empty());
    EXO_ASSERT(mode_ == Mode::wait || protocols_.size() == 1);
    append_message(output_, header);
    propose();
}

void Dialer::propose() {
    append_message(output_, protocols_[proposed_]);
}

Result<void> Dialer::receive(BytesView bytes) {
    EXO_ASSERT(!confirmed_);
    reader_.push(bytes);
    while (!confirmed_) {
        auto const message = reader_.next();
        if (!message) {
            return message.error();
        }
        if (!*message) {
            return {};
        }
        EXO_TRY(on_message(**message));
    }
    return {};
}

Result<void> Dialer::on_message(std::string const& message) {
    if (!header_seen_) {
        header_seen_ = message == header;
        return header_seen_ ? Result<void>() : unexpected("no header", message);
    }
    if (message == protocols_[proposed_]) {
        confirmed_ = true;
        return {};
    }
    if (message != not_available) {
        return unexpected("neither the proposal nor 'na'", message);
    }
    if (++proposed_ == protocols_.size()) {
        return Error(
            Errc::unsupported,
            fmt::format("the peer speaks none of {}", fmt::join(protocols_, ", "))
        );
    }
    propose();
    return {};
}

std::optional<std::string> Dialer::agreed() const {
    bool const known = confirmed_ || mode_ == Mode::lazy;
    return known && proposed_ < protocols_.size() ? std::optional(protocols_[proposed_])
                                                  : std::nullopt;
}

Bytes Dialer::take_rest() {
    EXO_ASSERT(confirmed_);
    return reader_.take_rest();
}

Listener::Listener(std::vector<std::string> protocols)
    : protocols_(std::move(protocols)) {}

Result<void> Listener::receive(BytesView bytes) {
    EXO_ASSERT(!confirmed());
    reader_.push(bytes);
    while (!confirmed()) {
        auto const message = reader_.next();
        if (!message) {
            return message.error();
        }
        if (!*message) {
            return {};
        }
        EXO_TRY(on_message(**message));
    }
    return {};
}

Result<void> Listener::on_message(std::string const& message) {
    if (!header_seen_) {
        if (message != header) {
            return unexpected("no header", message);
        }
        header_seen_ = true;
        append_message(output_, header);
        return {};
    }
    if (++proposals_count_ > proposals_max) {
        return Error(
            Errc::limit, fmt::format("multistream: more than {} proposals", proposals_max)
        );
    }
    if (message == list) {
        list_protocols();
        return {};
    }
    if (std::ranges::find(protocols_, message) == protocols_.end()) {
        append_message(output_, not_available);
        return {};
    }
    append_message(output_, message);
    agreed_ = message;
    return {};
}

// One message that holds all the names, each as a message of its own.
void Listener::list_protocols() {
    Bytes names;
    for (auto const& protocol : protocols_) {
        append_message(names, protocol);
    }
    append_varint(output_, names.size() + 1);
    append(output_, names);
    output_.push_back('\n');
}

Bytes Listener::take_rest() {
    EXO_ASSERT(confirmed());
    return reader_.take_rest();
}

} // namespace exo::net::multistream
