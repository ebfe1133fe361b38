// SPDX-License-Identifier: Apache-2.0
//
// multistream-select 1.0.0: two sides of a byte stream agree on the protocol to speak on it
// (specs/libp2p.md 4). Without I/O: the driver moves bytes, any cut of them will do. What arrives
// behind the agreement belongs to the agreed protocol and is kept for it: take_rest().
//
// A dialer proposes its protocols in turn. It may be lazy (V1Lazy): with a single proposal it goes
// on as if that were agreed and checks the answer when it comes.
#pragma once

#include "base/bytes.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace exo::net::multistream {

// A message without its length, newline included. js and go accept as much.
constexpr std::size_t message_bytes_max = 1024;

// A dialer that knows none of our protocols has no reason to go on asking.
constexpr std::size_t proposals_max = 32;

// Messages of a byte stream: a varint length, then a text that ends in a newline.
class MessageReader {
public:
    void push(BytesView bytes) { append(buffer_, bytes); }

    // The next text without its newline; empty if more bytes are needed. Error: protocol.
    [[nodiscard]] Result<std::optional<std::string>> next();

    [[nodiscard]] Bytes take_rest() { return std::exchange(buffer_, {}); }

private:
    Bytes buffer_; // At most one message and what came with it in one read.
};

enum class Mode { wait, lazy };

class Dialer {
public:
    // REQUIRES: at least one protocol; exactly one if lazy.
    Dialer(std::vector<std::string> protocols, Mode mode);

    // Takes bytes of the peer until confirmed(). Errors: protocol; unsupported, when the peer
    // speaks none of the protocols.
    [[nodiscard]] Result<void> receive(BytesView bytes);

    [[nodiscard]] Bytes take_output() { return std::exchange(output_, {}); }

    // Lazy dialers agree with themselves at once.
    [[nodiscard]] std::optional<std::string> agreed() const;

    // The peer has answered: nothing more is to be received here.
    [[nodiscard]] bool confirmed() const { return confirmed_; }

    // The bytes behind the agreement. REQUIRES: confirmed().
    [[nodiscard]] Bytes take_rest();

private:
    Result<void> on_message(std::string const& message);
    void propose();

    std::vector<std::string> protocols_;
    Mode mode_;
    std::size_t proposed_ = 0; // Index into protocols_.
    bool header_seen_ = false;
    bool confirmed_ = false;
    MessageReader reader_;
    Bytes output_;
};

class Listener {
public:
    explicit Listener(std::vector<std::string> protocols);

    // Takes bytes of the peer until confirmed(). Errors: protocol; limit, for too many proposals.
    [[nodiscard]] Result<void> receive(BytesView bytes);

    [[nodiscard]] Bytes take_output() { return std::exchange(output_, {}); }

    [[nodiscard]] std::optional<std::string> const& agreed() const { return agreed_; }

    [[nodiscard]] bool confirmed() const { return agreed_.has_value(); }

    // The bytes behind the agreement. REQUIRES: confirmed().
    [[nodiscard]] Bytes take_rest();

private:
    Result<void> on_message(std::string const& message);
    void list_protocols();

    std::vector<std::string> protocols_;
    bool header_seen_ = false;
    std::size_t proposals_count_ = 0;
    std::optional<std::string> agreed_;
    MessageReader reader_;
    Bytes output_;
};

} // namespace exo::net::multistream
