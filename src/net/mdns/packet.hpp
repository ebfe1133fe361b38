// SPDX-License-Identifier: Apache-2.0
//
// DNS packets as far as mDNS of libp2p needs them (RFC 1035 4.1, RFC 6762): questions, PTR and TXT
// records; of others only name and type are kept. Pure.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace exo::net::mdns {

// What fits one Ethernet frame is usual; RFC 6762 17 allows so much.
constexpr std::size_t packet_bytes_max = 9000;
// Of one section; a packet of 9000 bytes with more would hold nothing but tiny records.
constexpr std::size_t entries_max = 256;

constexpr std::uint16_t type_ptr = 12;
constexpr std::uint16_t type_txt = 16;
constexpr std::uint16_t class_in = 1;
// Top bit of a record's class: the sender's records replace older ones.
constexpr std::uint16_t cache_flush = 0x8000;

// The labels of a name. Compared without case, as DNS does.
class Name {
public:
    Name() = default;

    explicit Name(std::vector<std::string> labels)
        : labels_(std::move(labels)) {}

    // "_p2p._udp.local"; no escapes.
    [[nodiscard]] static Name of(std::string_view dotted);

    [[nodiscard]] std::vector<std::string> const& labels() const { return labels_; }

    [[nodiscard]] std::string text() const;

    bool operator==(Name const& other) const;

private:
    std::vector<std::string> labels_;
};

struct Question {
    Name name;
    std::uint16_t type = type_ptr;
    std::uint16_t record_class = class_in;
    bool operator==(Question const&) const = default;
};

struct Record {
    Name name;
    std::uint16_t type = 0;
    std::uint16_t record_class = class_in;
    std::uint32_t ttl_s = 0;
    Name target;                    // Of a PTR record.
    std::vector<std::string> texts; // Of a TXT record.
    bool operator==(Record const&) const = default;
};

struct Packet {
    std::uint16_t id = 0;
    bool is_response = false;
    std::vector<Question> questions;
    std::vector<Record> answers;
    std::vector<Record> authority; // Of probes; not written.
    std::vector<Record> additional;
    bool operator==(Packet const&) const = default;
};

// Without compression, as rust and js. REQUIRES: PTR and TXT records only; labels of 1 to 63 bytes,
// texts of at most 255.
[[nodiscard]] Bytes encode(Packet const& packet);

// Follows compression pointers (go). Errors: protocol, limit.
[[nodiscard]] Result<Packet> decode(BytesView bytes);

} // namespace exo::net::mdns
