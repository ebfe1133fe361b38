// SPDX-License-Identifier: Apache-2.0
#include "net/mdns/packet.hpp"

#include "base/assert.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace exo::net::mdns {
namespace {

constexpr std::size_t label_bytes_max = 63;
constexpr std::size_t name_bytes_max = 255;
constexpr std::size_t text_bytes_max = 255;
constexpr std::uint8_t pointer_bits = 0xc0;
constexpr std::uint16_t flag_response = 0x8000;
constexpr std::uint16_t flags_of_response = 0x8400; // And authoritative.

Error malformed(std::string const& why) {
    return {Errc::protocol, "mDNS packet: " + why};
}

// --- Reading ---

// Reads within the packet; every access is checked here. After a failure it gives zeros and
// `failed` stays set, so that callers check once an entry.
class Reader {
public:
    explicit Reader(BytesView packet)
        : packet_(packet)
        , end_(packet.size()) {}

    [[nodiscard]] bool failed() const { return failed_; }

    [[nodiscard]] std::size_t position() const { return position_; }

    void fail() { failed_ = true; }

    std::uint8_t u8() {
        if (position_ >= end_) {
            failed_ = true;
            return 0;
        }
        return packet_[position_++];
    }

    std::uint16_t u16() {
        auto const high = u8();
        return static_cast<std::uint16_t>(high << 8 | u8());
    }

    std::uint32_t u32() {
        auto const high = static_cast<std::uint32_t>(u16());
        return high << 16 | u16();
    }

    std::string text(std::size_t bytes_count) {
        if (failed_ || bytes_count > end_ - position_) {
            failed_ = true;
            return {};
        }
        auto const bytes = packet_.subspan(position_, bytes_count);
        position_ += bytes_count;
        return std::string(as_text(bytes));
    }

    // The same packet at another place; for pointers and record data.
    [[nodiscard]] Reader at(std::size_t position, std::size_t end) const {
        Reader other(packet_);
        other.position_ = position;
        other.end_ = end;
        return other;
    }

    // True if `bytes_count` bytes were there to skip.
    bool skip(std::size_t bytes_count) {
        if (failed_ || bytes_count > end_ - position_) {
            failed_ = true;
            return false;
        }
        position_ += bytes_count;
        return true;
    }

    [[nodiscard]] std::size_t packet_bytes() const { return packet_.size(); }

private:
    BytesView packet_;
    std::size_t position_ = 0;
    std::size_t end_;
    bool failed_ = false;
};

// Pointers may only lead backwards from where they stand, so that they end; the length is limited
// as well.
Name read_name(Reader& reader) {
    std::vector<std::string> labels;
    std::size_t bytes_count = 0;
    Reader at = reader;
    bool has_jumped = false;
    std::size_t lowest = reader.position();
    while (true) {
        auto const length = at.u8();
        if ((length & pointer_bits) == pointer_bits) {
            auto const high = static_cast<std::size_t>(length & ~pointer_bits);
            auto const target = high << 8 | at.u8();
            if (!has_jumped) {
                reader.skip(at.position() - reader.position());
                has_jumped = true;
            }
            if (target >= lowest) {
                reader.fail();
                return {};
            }
            lowest = target;
            at = at.at(target, at.packet_bytes());
            continue;
        }
        bytes_count += 1U + length;
        if (at.failed() || length > label_bytes_max || bytes_count > name_bytes_max) {
            reader.fail();
            return {};
        }
        if (length == 0) {
            break;
        }
        labels.push_back(at.text(length));
    }
    if (at.failed()) {
        reader.fail();
    } else if (!has_jumped) {
        reader.skip(at.position() - reader.position());
    }
    return Name(std::move(labels));
}

Question read_question(Reader& reader) {
    Question question;
    question.name = read_name(reader);
    question.type = reader.u16();
    question.record_class = reader.u16();
    return question;
}

std::vector<std::string> read_texts(Reader& data, std::size_t end) {
    std::vector<std::string> texts;
    while (!data.failed() && data.position() < end) {
        texts.push_back(data.text(data.u8()));
    }
    return texts;
}

Record read_record(Reader& reader) {
    Record record;
    record.name = read_name(reader);
    record.type = reader.u16();
    record.record_class = reader.u16();
    record.ttl_s = reader.u32();
    std::size_t const data_bytes = reader.u16();
    auto const begin = reader.position();
    if (!reader.skip(data_bytes)) {
        return record;
    }
    auto const end = begin + data_bytes;
    auto data = reader.at(begin, end);
    if (record.type == type_ptr) {
        record.target = read_name(data);
    } else if (record.type == type_txt) {
        record.texts = read_texts(data, end);
    }
    if (data.failed()) {
        reader.fail();
    }
    return record;
}

Result<std::vector<Record>> read_records(Reader& reader, std::size_t count) {
    std::vector<Record> records;
    for (std::size_t i = 0; i < count; ++i) {
        records.push_back(read_record(reader));
        if (reader.failed()) {
            return malformed(fmt::format("broken record at byte {}", reader.position()));
        }
    }
    return records;
}

// --- Writing ---

void append_u16(Bytes& to, std::size_t value) {
    to.push_back(static_cast<std::uint8_t>(value >> 8));
    to.push_back(static_cast<std::uint8_t>(value));
}

void append_name(Bytes& to, Name const& name) {
    for (auto const& label : name.labels()) {
        EXO_ASSERT(!label.empty());
        EXO_ASSERT(label.size() <= label_bytes_max);
        to.push_back(static_cast<std::uint8_t>(label.size()));
        append(to, as_bytes(label));
    }
    to.push_back(0);
}

void append_record(Bytes& to, Record const& record) {
    Bytes data;
    if (record.type == type_ptr) {
        append_name(data, record.target);
    } else {
        EXO_ASSERT(record.type == type_txt);
        for (auto const& text : record.texts) {
            EXO_ASSERT(text.size() <= text_bytes_max);
            data.push_back(static_cast<std::uint8_t>(text.size()));
            append(data, as_bytes(text));
        }
    }
    append_name(to, record.name);
    append_u16(to, record.type);
    append_u16(to, record.record_class);
    append_u16(to, record.ttl_s >> 16);
    append_u16(to, record.ttl_s & 0xffff);
    append_u16(to, data.size());
    append(to, data);
}

} // namespace

Name Name::of(std::string_view dotted) {
    return Name(split(dotted, '.'));
}

std::string Name::text() const {
    std::string text;
    for (auto const& label : labels_) {
        text += (text.empty() ? "" : ".") + label;
    }
    return text;
}

bool Name::operator==(Name const& other) const {
    return std::ranges::equal(
        labels_,
        other.labels_,
        {},
        [](auto const& label) { return to_lower(label); },
        [](auto const& label) { return to_lower(label); }
    );
}

Bytes encode(Packet const& packet) {
    Bytes bytes;
    append_u16(bytes, packet.id);
    append_u16(bytes, packet.is_response ? flags_of_response : 0);
    append_u16(bytes, packet.questions.size());
    append_u16(bytes, packet.answers.size());
    append_u16(bytes, 0);
    append_u16(bytes, packet.additional.size());
    for (auto const& question : packet.questions) {
        append_name(bytes, question.name);
        append_u16(bytes, question.type);
        append_u16(bytes, question.record_class);
    }
    for (auto const* section : {&packet.answers, &packet.additional}) {
        for (auto const& record : *section) {
            append_record(bytes, record);
        }
    }
    return bytes;
}

Result<Packet> decode(BytesView bytes) {
    if (bytes.size() > packet_bytes_max) {
        return Error(Errc::limit, fmt::format("mDNS packet of {} bytes", bytes.size()));
    }
    Reader reader(bytes);
    Packet packet;
    packet.id = reader.u16();
    packet.is_response = (reader.u16() & flag_response) != 0;
    std::size_t const question_count = reader.u16();
    std::size_t const answer_count = reader.u16();
    std::size_t const authority_count = reader.u16();
    std::size_t const additional_count = reader.u16();
    if (reader.failed()) {
        return malformed(fmt::format("{} bytes; the header alone has 12", bytes.size()));
    }
    if (std::max({question_count, answer_count, authority_count, additional_count}) > entries_max) {
        return Error(Errc::limit, fmt::format("mDNS packet: over {} entries", entries_max));
    }
    for (std::size_t i = 0; i < question_count; ++i) {
        packet.questions.push_back(read_question(reader));
        if (reader.failed()) {
            return malformed(fmt::format("broken question at byte {}", reader.position()));
        }
    }
    auto answers = read_records(reader, answer_count);
    if (!answers) {
        return answers.error();
    }
    auto authority = read_records(reader, authority_count);
    if (!authority) {
        return authority.error();
    }
    auto additional = read_records(reader, additional_count);
    if (!additional) {
        return additional.error();
    }
    packet.answers = std::move(*answers);
    packet.authority = std::move(*authority);
    packet.additional = std::move(*additional);
    return packet;
}

} // namespace exo::net::mdns
