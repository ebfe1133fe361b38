// SPDX-License-Identifier: Apache-2.0
#include "core/replica/record.hpp"

#include "base/bytes.hpp"
#include "model/json.hpp"

#include <nlohmann/json.hpp>
#include <sodium.h>

#include <array>

namespace exo::replica {
namespace {

constexpr std::size_t chain_bytes = 16;

} // namespace

std::string const& chain_start() {
    static std::string const start(chain_bytes * 2, '0');
    return start;
}

std::string chain_after(std::string const& previous, std::string const& event) {
    std::array<std::uint8_t, crypto_hash_sha256_BYTES> hash{};
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    auto const before = as_bytes(previous);
    auto const text = as_bytes(event);
    crypto_hash_sha256_update(&state, before.data(), before.size());
    crypto_hash_sha256_update(&state, text.data(), text.size());
    crypto_hash_sha256_final(&state, hash.data());
    return to_hex(BytesView(hash).first(chain_bytes));
}

Record make_record(
    model::Position const& position, model::Event const& event, std::string const& previous_chain
) {
    auto text = model::to_text(model::to_json(event, model::Naming::snake));
    auto chain = chain_after(previous_chain, text);
    return {position, std::move(text), std::move(chain)};
}

std::optional<model::Event> event_of(Record const& record) {
    auto const json = model::parse_json(record.event);
    if (!json) {
        return std::nullopt;
    }
    auto event = model::from_json<model::Event>(*json);
    return event ? std::optional(std::move(*event)) : std::nullopt;
}

} // namespace exo::replica
