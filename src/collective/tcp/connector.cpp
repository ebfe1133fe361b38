// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/connector.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <poll.h>

namespace exo::collective {
namespace {

// For a connection to be made and both sides to prove themselves: a few round trips.
constexpr Duration attempt_limit = 5s;
// Before the next address of a rank is tried as well.
constexpr Duration address_interval = 250ms;
// Before the addresses are tried again from the first.
constexpr Duration round_interval = 500ms;
// How late a cancellation may be seen.
constexpr Duration look_interval = 50ms;
// Unproven connections to our port at a time; one more pushes out the oldest. Far more than ranks
// make, and a stranger cannot take more memory or descriptors than this.
constexpr std::size_t inbound_max = 32;
// A node with more interfaces than this names its best ones first.
constexpr std::size_t addresses_max = 16;
constexpr std::size_t failure_text_bytes_max = 1024;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

Nonce32 new_nonce() {
    Nonce32 nonce;
    fill_random(nonce);
    return nonce;
}

// Sends what the socket takes. False: the connection is broken, which the next read will explain.
bool flush(Socket const& socket, Bytes& output) {
    if (output.empty()) {
        return true;
    }
    auto const sent = send_some(socket, output);
    if (!sent) {
        return false;
    }
    output.erase(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(*sent));
    return true;
}

} // namespace

Connector::Connector(
    Listener listener,
    Handshake::Self self,
    std::vector<Endpoint> const& endpoints,
    std::vector<Network> private_networks,
    TcpOptions const& options
)
    : listener_(std::move(listener))
    , self_(std::move(self))
    , private_networks_(std::move(private_networks))
    , options_(options) {
    for (auto const& endpoint : endpoints) {
        Peer peer;
        peer.endpoint = endpoint;
        auto& addresses = peer.endpoint.addresses;
        addresses.resize(std::min(addresses.size(), addresses_max));
        peers_.push_back(std::move(peer));
    }
}

Result<std::vector<Joined>> Connector::run() {
    TimePoint const deadline = now() + options_.connect_limit;
    while (!finished()) {
        auto result = step(now());
        if (result && options_.cancelled != nullptr && options_.cancelled->load()) {
            result = Error(Errc::cancelled, "connecting the ranks was cancelled");
        }
        if (result && now() >= deadline && !finished()) {
            result = too_late();
        }
        if (!result) {
            tell_failure(result.error());
            return result.error();
        }
    }
    std::vector<Joined> joined;
    for (auto& peer : peers_) {
        if (peer.joined) {
            joined.push_back(std::move(*peer.joined));
        }
    }
    return joined;
}

bool Connector::finished() const {
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
        auto const& peer = peers_[rank];
        if (rank != self_.membership.rank && (!peer.ready || !peer.output.empty())) {
            return false;
        }
    }
    return announced_;
}

Result<void> Connector::step(TimePoint now) {
    dial_what_is_due(now);
    wait(now);
    accept_all(now);
    for (auto& attempt : attempts_) {
        if (!attempt.over) {
            EXO_TRY(advance(attempt));
        }
    }
    drop_late_attempts(now);
    announce_when_joined();
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
        if (peers_[rank].joined) {
            EXO_TRY(advance(rank, peers_[rank]));
        }
    }
    return {};
}

// ---- dialling

bool Connector::has_dial_to(std::uint32_t rank) const {
    return std::ranges::any_of(attempts_, [rank](Attempt const& attempt) {
        return attempt.dialled == rank && !attempt.over;
    });
}

void Connector::dial_what_is_due(TimePoint now) {
    for (std::uint32_t rank = 0; rank < self_.membership.rank; ++rank) {
        auto& peer = peers_[rank];
        bool const round_over = peer.next_address == peer.endpoint.addresses.size();
        if (peer.joined || (round_over && has_dial_to(rank))) {
            continue;
        }
        // Nothing under way: the next address need not wait for its turn.
        bool const idle = !round_over && peer.next_address > 0 && !has_dial_to(rank);
        if (now < peer.next_dial && !idle) {
            continue;
        }
        if (round_over) {
            peer.next_address = 0;
            peer.next_dial = now + round_interval;
            continue;
        }
        dial_next_address(rank, now);
    }
}

void Connector::dial_next_address(std::uint32_t rank, TimePoint now) {
    auto& peer = peers_[rank];
    auto const& ip = peer.endpoint.addresses[peer.next_address++];
    bool const last = peer.next_address == peer.endpoint.addresses.size();
    peer.next_dial = now + (last ? round_interval : address_interval);
    auto const address = Address::parse(ip, peer.endpoint.port);
    if (!address) {
        peer.failures[ip] = address.error().text();
        return;
    }
    auto const where = address->text();
    auto socket = start_connect(*address);
    if (!socket) {
        peer.failures[where] = socket.error().text();
        return;
    }
    attempts_.push_back({
        .socket = std::move(*socket),
        .where = where,
        .handshake = Handshake::dial(self_, rank, where, new_nonce()),
        .deadline = now + attempt_limit,
        .dialled = rank,
        .connecting = true,
    });
}

// ---- waiting

void Connector::wait(TimePoint now) {
    std::vector<pollfd> polled;
    auto const add = [&](Socket const& socket, bool read, bool write) {
        int const bits = (read ? POLLIN : 0) | (write ? POLLOUT : 0);
        polled.push_back({socket.descriptor(), static_cast<short>(bits), 0});
    };
    add(listener_.socket(), true, false);
    for (auto const& attempt : attempts_) {
        add(attempt.socket, !attempt.connecting, attempt.connecting || !attempt.output.empty());
    }
    for (auto const& peer : peers_) {
        if (peer.joined) {
            add(peer.joined->socket, !peer.ready, !peer.output.empty());
        }
    }
    Duration limit = look_interval;
    for (auto const& peer : peers_) {
        if (!peer.joined && peer.next_dial > now) {
            limit = std::min<Duration>(limit, peer.next_dial - now);
        }
    }
    auto const rounded = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
    (void)poll(polled.data(), static_cast<nfds_t>(polled.size()), static_cast<int>(rounded));
}

void Connector::accept_all(TimePoint now) {
    while (auto socket = accept_one(listener_.socket())) {
        auto const inbound = [](Attempt const& attempt) { return !attempt.dialled; };
        if (std::ranges::count_if(attempts_, inbound) >= std::ptrdiff_t{inbound_max}) {
            attempts_.erase(std::ranges::find_if(attempts_, inbound));
        }
        auto const where = Address::of_peer(*socket).text();
        attempts_.push_back({
            .socket = std::move(*socket),
            .where = where,
            .handshake = Handshake::listen(self_, where, new_nonce()),
            .deadline = now + attempt_limit,
        });
        if (needs_no_cipher(attempts_.back().socket)) {
            attempts_.back().handshake.allow_plain();
        }
    }
}

// What this side thinks of a connection; the other must think so too.
bool Connector::needs_no_cipher(Socket const& socket) const {
    return (options_.plain_on_one_machine && is_within_machine(socket)) ||
           is_within(private_networks_, socket);
}

void Connector::drop_late_attempts(TimePoint now) {
    for (auto& attempt : attempts_) {
        if (!attempt.over && now >= attempt.deadline) {
            give_up(attempt, "no answer");
        }
    }
    std::erase_if(attempts_, [](Attempt const& attempt) { return attempt.over; });
}

// ---- proving

void Connector::give_up(Attempt& attempt, std::string const& why) {
    attempt.over = true;
    if (attempt.dialled) {
        peers_[*attempt.dialled].failures[attempt.where] = why;
        return;
    }
    ++refused_;
    last_refusal_ = why;
    log::debug("collective", "refused a connection from {}: {}", attempt.where, why);
}

Result<void> Connector::advance(Attempt& attempt) {
    if (attempt.connecting) {
        pollfd polled{attempt.socket.descriptor(), POLLOUT, 0};
        if (poll(&polled, 1, 0) == 0) {
            return {};
        }
        if (auto const connected = connect_result(attempt.socket); !connected) {
            give_up(attempt, connected.error().text());
            return {};
        }
        attempt.connecting = false;
        if (needs_no_cipher(attempt.socket)) {
            attempt.handshake.allow_plain();
        }
    }
    auto const more = read_handshake(attempt);
    append(attempt.output, attempt.handshake.take_output());
    (void)flush(attempt.socket, attempt.output);
    if (!more && more.error().code() == Errc::conflict) {
        return more.error();
    }
    if (!more) {
        give_up(attempt, more.error().text());
        return {};
    }
    if (attempt.handshake.complete()) {
        join(attempt);
    } else if (!*more) {
        give_up(attempt, "the connection was closed");
    }
    return {};
}

// False at the end of the stream.
Result<bool> Connector::read_handshake(Attempt& attempt) {
    std::array<std::uint8_t, 4096> bytes;
    auto const count = receive_some(attempt.socket, bytes);
    if (!count) {
        return count.error();
    }
    if (!*count) {
        return true;
    }
    EXO_TRY(attempt.handshake.receive(BytesView(bytes).first(**count)));
    return **count > 0;
}

void Connector::join(Attempt& attempt) {
    bool const dialled = attempt.dialled.has_value();
    if (dialled && peers_[*attempt.dialled].joined) {
        attempt.over = true; // Another address was faster.
        return;
    }
    if (dialled) {
        attempt.handshake.choose();
        append(attempt.output, attempt.handshake.take_output());
    }
    auto session = attempt.handshake.take_session();
    auto& peer = peers_[session.peer];
    if (peer.joined) {
        give_up(attempt, fmt::format("rank {} is connected already", session.peer));
        return;
    }
    peer.output = std::move(attempt.output);
    peer.joined.emplace(Joined{std::move(attempt.socket), attempt.where, std::move(session)});
    attempt.over = true;
    for (auto& other : attempts_) {
        if (dialled && other.dialled == attempt.dialled) {
            other.over = true;
        }
    }
}

// ---- waiting for the others

void Connector::announce_when_joined() {
    auto const others = static_cast<std::ptrdiff_t>(peers_.size()) - 1;
    auto const joined = [](Peer const& peer) { return peer.joined.has_value(); };
    if (announced_ || std::ranges::count_if(peers_, joined) < others) {
        return;
    }
    announced_ = true;
    for (auto& peer : peers_) {
        if (peer.joined) {
            peer.joined->session.sealer.seal({.kind = RecordKind::ready}, {}, peer.output);
        }
    }
}

Result<void> Connector::advance(std::uint32_t rank, Peer& peer) {
    (void)flush(peer.joined->socket, peer.output);
    EXO_TRY(take_records(rank, peer));
    if (peer.ready) {
        return {};
    }
    std::array<std::uint8_t, 4096> bytes;
    auto const count = receive_some(peer.joined->socket, bytes);
    if (!count || (*count && **count == 0)) {
        return Error(
            Errc::unavailable,
            fmt::format(
                "rank {} at {} closed the connection while the group formed: its runner failed or "
                "was stopped",
                rank,
                peer.joined->where
            )
        );
    }
    if (*count) {
        append(peer.joined->session.rest, BytesView(bytes).first(**count));
    }
    return take_records(rank, peer);
}

// Up to `ready`; what comes behind it is the group's.
Result<void> Connector::take_records(std::uint32_t rank, Peer& peer) {
    auto& opener = peer.joined->session.opener;
    auto& rest = peer.joined->session.rest;
    while (!peer.ready && rest.size() >= record_header_bytes) {
        auto const header = parse_record_header(rest);
        if (!header) {
            return header.error();
        }
        std::size_t const size = record_header_bytes + body_bytes(*header);
        if (rest.size() < size) {
            return {};
        }
        Bytes payload(header->payload_bytes);
        auto const body = BytesView(rest).subspan(record_header_bytes, body_bytes(*header));
        EXO_TRY(opener.open(*header, rest, body, payload));
        rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
        if (header->kind != RecordKind::ready) {
            bool const failed = header->kind == RecordKind::failed;
            std::string_view const why = failed ? as_text(payload) : "it was stopped";
            return Error(
                Errc::unavailable,
                fmt::format("rank {} at {} gave up: {}", rank, peer.joined->where, why)
            );
        }
        peer.ready = true;
    }
    return {};
}

// ---- failing

Error Connector::too_late() const {
    std::string text = fmt::format(
        "the group of {} ranks did not form within {:.1f} s:",
        peers_.size(),
        std::chrono::duration<double>(options_.connect_limit).count()
    );
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
        auto const& peer = peers_[rank];
        if (rank == self_.membership.rank || peer.ready) {
            continue;
        }
        if (peer.joined) {
            text += fmt::format(" rank {} is connected but still waits for another;", rank);
        } else if (rank > self_.membership.rank) {
            text +=
                fmt::format(" rank {} did not connect to port {} here;", rank, listener_.port());
        } else {
            text += fmt::format(" rank {} was not reached", rank);
            for (auto const& [where, why] : peer.failures) {
                text += fmt::format(" ({}: {})", where, why);
            }
            text += ';';
        }
    }
    if (refused_ > 0) {
        text += fmt::format(
            " {} other connections were refused, the last because {};", refused_, last_refusal_
        );
    }
    text.back() = '.';
    return Error(Errc::timed_out, text);
}

void Connector::tell_failure(Error const& error) {
    for (auto& peer : peers_) {
        if (peer.joined) {
            auto const why = utf8_prefix(error.text(), failure_text_bytes_max);
            peer.joined->session.sealer.seal(
                {.kind = RecordKind::failed}, as_bytes(why), peer.output
            );
            (void)flush(peer.joined->socket, peer.output);
        }
    }
}

} // namespace exo::collective
