// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/record.hpp"

#include "base/assert.hpp"
#include "collective/group.hpp"
#include "collective/tcp/big_endian.hpp"

#include <sodium.h>

#include <algorithm>

namespace exo::collective {
namespace {

constexpr std::uint8_t sealed_flag = 1;

static_assert(crypto_aead_chacha20poly1305_ietf_ABYTES == record_tag_bytes);
static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == std::tuple_size_v<RecordKey>);

using Nonce = std::array<std::uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

// 64 bits are never used up, and each direction has its own key, so no nonce is used twice.
Nonce nonce_of(std::uint64_t counter) {
    Nonce nonce{};
    write_u32(nonce.data() + 4, static_cast<std::uint32_t>(counter >> 32));
    write_u32(nonce.data() + 8, static_cast<std::uint32_t>(counter));
    return nonce;
}

void write_header(std::uint8_t* to, RecordHeader const& header) {
    to[0] = static_cast<std::uint8_t>(header.kind);
    to[1] = header.sealed ? sealed_flag : 0;
    to[2] = static_cast<std::uint8_t>(header.operation);
    to[3] = 0;
    write_u32(to + 4, header.payload_bytes);
    write_u32(to + 8, header.message_bytes);
}

} // namespace

Result<RecordHeader> parse_record_header(BytesView bytes) {
    EXO_ASSERT(bytes.size() >= record_header_bytes);
    constexpr auto kind_last = static_cast<std::uint8_t>(RecordKind::ready);
    constexpr auto operation_last = static_cast<std::uint8_t>(Operation::barrier);
    RecordHeader const header{
        .kind = RecordKind(bytes[0]),
        .sealed = bytes[1] == sealed_flag,
        .operation = Operation(bytes[2]),
        .payload_bytes = read_u32(bytes.subspan(4)),
        .message_bytes = read_u32(bytes.subspan(8)),
    };
    bool const known = bytes[0] >= 1 && bytes[0] <= kind_last && bytes[1] <= sealed_flag &&
                       bytes[2] <= operation_last && bytes[3] == 0;
    bool const plain_data = !header.sealed && is_data(header.kind);
    bool const within_limits =
        header.payload_bytes <= (plain_data ? plain_payload_bytes_max : record_payload_bytes_max) &&
        header.message_bytes <= message_bytes_max;
    if (!known || !within_limits) {
        return Error(Errc::protocol, "a record has an unknown form");
    }
    return header;
}

void Sealer::seal(RecordHeader header, BytesView payload, Bytes& to) {
    EXO_ASSERT(
        payload.size() <= (is_data(header.kind) ? payload_bytes_max() : record_payload_bytes_max)
    );
    header.sealed = sealed_;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    std::size_t const start = to.size();
    to.resize(start + record_header_bytes + body_bytes(header));
    std::uint8_t* const head = to.data() + start;
    std::uint8_t* const body = head + record_header_bytes;
    write_header(head, header);
    if (!sealed_) {
        std::ranges::copy(payload, body);
        return;
    }
    Nonce const nonce = nonce_of(counter_++);
    crypto_aead_chacha20poly1305_ietf_encrypt(
        body,
        nullptr,
        payload.data(),
        payload.size(),
        head,
        record_header_bytes,
        nullptr,
        nonce.data(),
        key_.data()
    );
}

std::array<std::uint8_t, record_header_bytes>
Sealer::plain_header(RecordHeader header, std::size_t payload_bytes) const {
    EXO_ASSERT(!sealed_);
    EXO_ASSERT(payload_bytes <= plain_payload_bytes_max);
    header.sealed = false;
    header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
    std::array<std::uint8_t, record_header_bytes> bytes{};
    write_header(bytes.data(), header);
    return bytes;
}

Result<void> Opener::open(
    RecordHeader const& header, BytesView header_bytes, BytesView body, std::span<std::uint8_t> to
) {
    EXO_ASSERT(body.size() == body_bytes(header));
    EXO_ASSERT(to.size() == header.payload_bytes);
    if (!header.sealed) {
        if (!plain_accepted_) {
            return Error(Errc::protocol, "a record is not encrypted");
        }
        std::ranges::copy(body, to.begin());
        return {};
    }
    Nonce const nonce = nonce_of(counter_++);
    auto const tag = body.subspan(header.payload_bytes);
    if (crypto_aead_chacha20poly1305_ietf_decrypt_detached(
            to.data(),
            nullptr,
            body.data(),
            header.payload_bytes,
            tag.data(),
            header_bytes.data(),
            record_header_bytes,
            nonce.data(),
            key_.data()
        ) != 0) {
        return Error(Errc::protocol, "a record is damaged or forged");
    }
    return {};
}

} // namespace exo::collective
