// SPDX-License-Identifier: Apache-2.0
//
// Values as JSON and MessagePack, from one description of each type (describe.hpp).
//
//   JSON for the API is camelCase, MessagePack between programs is snake_case; input may have
//   either. A variant is {"ClassName": {...}}; one with a single alternative is also read without
//   the tag. Strong ids are strings, maps keyed by them objects; an empty optional is null.
//   Enumerators are in PascalCase. Bytes are binary in MessagePack and hexadecimal text in JSON.
//
// Bytes from outside never throw out of here: a wrong document is an Error that names the path of
// the wrong field. Fields that are not known are ignored; all that are known must be there, but for
// optionals and the types that say otherwise (describe.hpp: absent_fields_keep_defaults).
//
// The templates are defined in json_codec.hpp and instantiated once per type by the type's owner
// (EXO_INSTANTIATE_CODEC), so that nobody else pays for compiling them.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace exo::model {

enum class Naming { camel, snake };

// What one document may hold: enough for a snapshot of State, too little to exhaust memory.
constexpr std::size_t document_bytes_max = 64u << 20;
constexpr std::size_t document_values_max = 1'000'000;
// Ours are 12 deep at most; parsers recurse.
constexpr std::size_t document_depth_max = 64;

// Strings that are no UTF-8 (a runner's last words) get U+FFFD in place of each bad byte.
template <class T>
[[nodiscard]] nlohmann::json to_json(T const& value, Naming naming);

// Errors: invalid_argument ("instances.a.shardAssignments.modelId: text expected"), and unsupported
// when a variant has a tag that we do not know (an event of a newer version).
template <class T>
[[nodiscard]] Result<T> from_json(nlohmann::json const& json);

// snake_case.
template <class T>
[[nodiscard]] Bytes to_msgpack(T const& value);

// Errors: those of from_json; limit.
template <class T>
[[nodiscard]] Result<T> from_msgpack(BytesView bytes);

// The text of one JSON document. Errors: invalid_argument with the place, limit.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text);
[[nodiscard]] Result<nlohmann::json> parse_msgpack(BytesView bytes);

// Compact text; never throws.
[[nodiscard]] std::string to_text(nlohmann::json const& json);

// "MlxRing" of InstanceMeta::mlx_ring: as in JSON. For described enums.
template <class E>
[[nodiscard]] std::string enum_name(E value);

// The reverse. Error: invalid_argument, with the names there are.
template <class E>
[[nodiscard]] Result<E> enum_from_name(std::string_view name);

} // namespace exo::model
