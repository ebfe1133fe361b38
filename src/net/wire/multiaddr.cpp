// SPDX-License-Identifier: Apache-2.0
#include "net/wire/multiaddr.hpp"

#include "base/assert.hpp"
#include "base/text.hpp"
#include "net/wire/varint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>

namespace exo::net {
namespace {

// Real ones have at most five (ip6zone, ip6, tcp, p2p and one to spare).
constexpr std::size_t parts_max = 16;
constexpr std::size_t name_bytes_max = 255; // A DNS name; zones and peer ids are shorter.

struct Kind {
    AddrPart part;
    std::string_view name;
    std::size_t bytes_count; // 0: a length prefix says it.
};

constexpr std::array kinds{
    Kind{AddrPart::ip4, "ip4", 4},
    Kind{AddrPart::tcp, "tcp", 2},
    Kind{AddrPart::ip6, "ip6", 16},
    Kind{AddrPart::ip6zone, "ip6zone", 0},
    Kind{AddrPart::dns, "dns", 0},
    Kind{AddrPart::dns4, "dns4", 0},
    Kind{AddrPart::dns6, "dns6", 0},
    Kind{AddrPart::p2p, "p2p", 0},
};

Kind const& kind_of(AddrPart part) {
    auto const kind = std::ranges::find(kinds, part, &Kind::part);
    EXO_ASSERT(kind != kinds.end()); // Parts come from parse() and from_bytes() only.
    return *kind;
}

Result<std::uint16_t> parse_port(std::string_view text) {
    std::uint16_t port = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size()) {
        return Error(Errc::invalid_argument, fmt::format("'{}' is no port (0 to 65535)", text));
    }
    return port;
}

Result<Bytes> parse_ip(int family, std::string_view text) {
    Bytes bytes(family == AF_INET ? 4 : 16);
    if (inet_pton(family, std::string(text).c_str(), bytes.data()) != 1) {
        auto const* const kind = family == AF_INET ? "IPv4" : "IPv6";
        return Error(Errc::invalid_argument, fmt::format("'{}' is no {} address", text, kind));
    }
    return bytes;
}

std::string format_ip(int family, Bytes const& bytes) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    EXO_ASSERT(inet_ntop(family, bytes.data(), text.data(), text.size()) != nullptr);
    return text.data();
}

// A slash would make another address of it, and nothing else may look odd in a log line.
bool is_name(std::string_view text) {
    auto const fits = [](char c) { return c > ' ' && c < 0x7f && c != '/' && c != '%'; };
    return !text.empty() && text.size() <= name_bytes_max && std::ranges::all_of(text, fits);
}

Bytes port_bytes(std::uint16_t port) {
    return {static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port)};
}

std::uint16_t port_of(Bytes const& bytes) {
    return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
}

Result<Bytes> parse_value(AddrPart kind, std::string_view text) {
    switch (kind) {
    case AddrPart::ip4:
        return parse_ip(AF_INET, text);
    case AddrPart::ip6:
        return parse_ip(AF_INET6, text);
    case AddrPart::tcp: {
        auto const port = parse_port(text);
        return port ? Result<Bytes>(port_bytes(*port)) : Result<Bytes>(port.error());
    }
    case AddrPart::p2p: {
        auto const peer = PeerId::parse(text);
        return peer ? Result<Bytes>(peer->bytes()) : Result<Bytes>(peer.error());
    }
    case AddrPart::ip6zone:
    case AddrPart::dns:
    case AddrPart::dns4:
    case AddrPart::dns6:
        break;
    }
    if (!is_name(text)) {
        return Error(Errc::invalid_argument, fmt::format("'{}' is no name", text));
    }
    return Bytes(text.begin(), text.end());
}

std::string format_value(AddrPart kind, Bytes const& value) {
    switch (kind) {
    case AddrPart::ip4:
        return format_ip(AF_INET, value);
    case AddrPart::ip6:
        return format_ip(AF_INET6, value);
    case AddrPart::tcp:
        return std::to_string(port_of(value));
    case AddrPart::p2p: {
        auto const peer = PeerId::from_bytes(value);
        EXO_ASSERT(peer.has_value());
        return peer->text();
    }
    case AddrPart::ip6zone:
    case AddrPart::dns:
    case AddrPart::dns4:
    case AddrPart::dns6:
        break;
    }
    return std::string(as_text(value));
}

// Takes a value of the wire from the front of `rest`.
Result<Bytes> take_value(Kind const& kind, BytesView& rest) {
    auto bytes_count = kind.bytes_count;
    if (bytes_count == 0) {
        auto const length = read_varint(rest, name_bytes_max);
        if (!length || !*length) {
            return Error(Errc::protocol, fmt::format("multiaddr: {} without a length", kind.name));
        }
        bytes_count = (*length)->value;
        rest = rest.subspan((*length)->bytes_count);
    }
    if (rest.size() < bytes_count) {
        return Error(Errc::protocol, fmt::format("multiaddr: {} is cut off", kind.name));
    }
    auto const value = rest.first(bytes_count);
    rest = rest.subspan(bytes_count);
    bool const valid =
        kind.bytes_count > 0 || (kind.part == AddrPart::p2p ? PeerId::from_bytes(value).has_value()
                                                            : is_name(as_text(value)));
    if (!valid) {
        return Error(Errc::protocol, fmt::format("multiaddr: bad value of {}", kind.name));
    }
    return Bytes(value.begin(), value.end());
}

} // namespace

Result<Multiaddr> Multiaddr::parse(std::string_view text) {
    auto const refuse = [&](std::string const& why) {
        auto const shown = utf8_prefix(text, name_bytes_max);
        return Error(Errc::invalid_argument, fmt::format("address '{}': {}", shown, why));
    };
    if (!text.starts_with('/')) {
        return refuse("a multiaddr begins with '/', for example /ip4/10.0.0.1/tcp/4001");
    }
    auto const words = split(text.substr(1), '/');
    if (words.size() % 2 != 0 || words.size() > 2 * parts_max) {
        return refuse("it needs pairs of a kind and a value, for example /ip4/10.0.0.1/tcp/4001");
    }
    Multiaddr address;
    for (std::size_t i = 0; i < words.size(); i += 2) {
        // "ipfs" is the old name of "p2p".
        auto const name = words[i] == "ipfs" ? "p2p" : std::string_view(words[i]);
        auto const kind = std::ranges::find(kinds, name, &Kind::name);
        if (kind == kinds.end()) {
            return refuse(fmt::format("unknown part '{}'", words[i]));
        }
        auto value = parse_value(kind->part, words[i + 1]);
        if (!value) {
            return refuse(value.error().text());
        }
        address.parts_.push_back({kind->part, std::move(*value)});
    }
    return address;
}

Result<Multiaddr> Multiaddr::from_bytes(BytesView bytes) {
    if (bytes.empty()) {
        return Error(Errc::protocol, "multiaddr: no bytes");
    }
    Multiaddr address;
    while (!bytes.empty()) {
        auto const code = read_varint(bytes);
        if (!code || !*code || address.parts_.size() == parts_max) {
            return Error(Errc::protocol, "multiaddr: bad code of a part, or too many parts");
        }
        auto const is_it = [&](Kind const& kind) {
            return static_cast<std::uint64_t>(kind.part) == (*code)->value;
        };
        auto const kind = std::ranges::find_if(kinds, is_it);
        if (kind == kinds.end()) {
            return Error(Errc::protocol, fmt::format("multiaddr: unknown part {}", (*code)->value));
        }
        bytes = bytes.subspan((*code)->bytes_count);
        auto value = take_value(*kind, bytes);
        if (!value) {
            return value.error();
        }
        address.parts_.push_back({kind->part, std::move(*value)});
    }
    return address;
}

Result<Multiaddr> Multiaddr::tcp(std::string_view ip, std::uint16_t port) {
    Multiaddr address;
    auto const percent = ip.find('%');
    bool const v6 = ip.find(':') != std::string_view::npos;
    if (percent != std::string_view::npos) {
        auto const zone = ip.substr(percent + 1);
        if (!v6 || !is_name(zone)) {
            return Error(Errc::invalid_argument, fmt::format("'{}' has a bad zone", ip));
        }
        address.parts_.push_back({AddrPart::ip6zone, Bytes(zone.begin(), zone.end())});
    }
    auto host = parse_ip(v6 ? AF_INET6 : AF_INET, ip.substr(0, percent));
    if (!host) {
        return host.error();
    }
    address.parts_.push_back({v6 ? AddrPart::ip6 : AddrPart::ip4, std::move(*host)});
    address.parts_.push_back({AddrPart::tcp, port_bytes(port)});
    return address;
}

std::string Multiaddr::text() const {
    std::string text;
    for (auto const& part : parts_) {
        text += fmt::format("/{}/{}", kind_of(part.kind).name, format_value(part.kind, part.value));
    }
    return text;
}

Bytes Multiaddr::bytes() const {
    Bytes bytes;
    for (auto const& part : parts_) {
        append_varint(bytes, static_cast<std::uint64_t>(part.kind));
        if (kind_of(part.kind).bytes_count == 0) {
            append_varint(bytes, part.value.size());
        }
        append(bytes, part.value);
    }
    return bytes;
}

std::optional<TcpTarget> Multiaddr::tcp_target() const {
    TcpTarget target;
    auto part = parts_.begin();
    if (part != parts_.end() && part->kind == AddrPart::ip6zone) {
        target.zone = as_text(part->value);
        ++part;
    }
    if (parts_.end() - part < 2 || (part + 1)->kind != AddrPart::tcp ||
        part->kind == AddrPart::tcp || part->kind == AddrPart::p2p) {
        return std::nullopt;
    }
    if (!target.zone.empty() && part->kind != AddrPart::ip6) {
        return std::nullopt;
    }
    target.host_kind = part->kind;
    target.host = format_value(part->kind, part->value);
    target.port = port_of((part + 1)->value);
    return target;
}

std::optional<PeerId> Multiaddr::peer() const {
    if (parts_.empty() || parts_.back().kind != AddrPart::p2p) {
        return std::nullopt;
    }
    auto const peer = PeerId::from_bytes(parts_.back().value);
    EXO_ASSERT(peer.has_value());
    return *peer;
}

Multiaddr Multiaddr::with_peer(PeerId const& peer) const {
    EXO_ASSERT(!peer.empty());
    auto address = without_peer();
    address.parts_.push_back({AddrPart::p2p, peer.bytes()});
    return address;
}

Multiaddr Multiaddr::without_peer() const {
    auto address = *this;
    if (!address.parts_.empty() && address.parts_.back().kind == AddrPart::p2p) {
        address.parts_.pop_back();
    }
    return address;
}

std::optional<Ip> ip_of(Multiaddr const& address) {
    auto const target = address.tcp_target();
    return target ? Ip::parse(target->host) : std::nullopt;
}

Result<Multiaddr> parse_address(std::string_view text) {
    if (text.starts_with('/')) {
        return Multiaddr::parse(text);
    }
    auto const refuse = [&](std::string const& why) {
        return Error(
            Errc::invalid_argument,
            fmt::format(
                "address '{}': {}; write host:port, [ip6]:port or a multiaddr such as "
                "/ip4/10.0.0.1/tcp/4001",
                utf8_prefix(text, name_bytes_max),
                why
            )
        );
    };
    auto const colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return refuse("it has no port");
    }
    auto const port = parse_port(text.substr(colon + 1));
    if (!port) {
        return refuse(port.error().text());
    }
    auto host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) {
        host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
        return refuse("an IPv6 address stands in brackets");
    }
    if (auto const address = Multiaddr::tcp(host, *port)) {
        return *address;
    }
    if (!is_name(host) || host.find(':') != std::string_view::npos) {
        return refuse(fmt::format("'{}' is no host", host));
    }
    return Multiaddr::parse(fmt::format("/dns/{}/tcp/{}", host, *port));
}

} // namespace exo::net
