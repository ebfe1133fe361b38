// SPDX-License-Identifier: Apache-2.0
//
// The templates behind json.hpp. Only for the .cpp file in which the owner of a type that travels
// instantiates them:
//
//     #include "model/json_codec.hpp"
//     EXO_INSTANTIATE_CODEC(exo::ipc::ToRunner)
//
// What a type may be made of: bool, integers, double, text, Strong ids, Bytes, optional, vector,
// deque, map (keyed by text or ids), variant of described structs, described structs and enums.
#pragma once

#include "base/strong.hpp"
#include "base/text.hpp"
#include "model/describe.hpp"
#include "model/json.hpp"

#include <boost/mp11/algorithm.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// At global scope.
#define EXO_INSTANTIATE_CODEC(Type)                                                                \
    template ::nlohmann::json exo::model::to_json<Type>(Type const&, ::exo::model::Naming);        \
    template ::exo::Result<Type> exo::model::from_json<Type>(::nlohmann::json const&);             \
    template ::exo::Bytes exo::model::to_msgpack<Type>(Type const&);                               \
    template ::exo::Result<Type> exo::model::from_msgpack<Type>(::exo::BytesView);

#define EXO_INSTANTIATE_ENUM_NAMES(Type)                                                           \
    template ::std::string exo::model::enum_name<Type>(Type);                                      \
    template ::exo::Result<Type> exo::model::enum_from_name<Type>(::std::string_view);

namespace exo::model::codec {

using Json = nlohmann::json;

struct Style {
    Naming naming = Naming::snake;
    bool binary = false; // Bytes may be binary values.
};

// Where and why a document is wrong. The path grows from the inside out.
struct Failure {
    std::string path;
    std::string text;
    Errc code = Errc::invalid_argument;

    // Each returns false, so that a reader can end with it.
    bool set(std::string what);
    bool inside(std::string_view field);
    bool inside(std::size_t index);
    [[nodiscard]] Error error() const;
};

[[nodiscard]] std::string camel_case(std::string_view snake);
[[nodiscard]] std::string pascal_case(std::string_view snake);
// Each bad byte replaced by U+FFFD.
[[nodiscard]] std::string clean_utf8(std::string_view text);
[[nodiscard]] Json bytes_value(Bytes const& bytes, Style style);

[[nodiscard]] bool read_bool(Json const& in, bool& out, Failure& failure);
[[nodiscard]] bool read_text(Json const& in, std::string& out, Failure& failure);
[[nodiscard]] bool read_bytes(Json const& in, Bytes& out, Failure& failure);
[[nodiscard]] bool read_double(Json const& in, double& out, Failure& failure);
[[nodiscard]] bool
read_unsigned(Json const& in, std::uint64_t max, std::uint64_t& out, Failure& failure);
[[nodiscard]] bool read_signed(
    Json const& in, std::int64_t min, std::int64_t max, std::int64_t& out, Failure& failure
);
[[nodiscard]] bool expect_object(Json const& in, Failure& failure);
[[nodiscard]] bool expect_array(Json const& in, Failure& failure);
// The member under either spelling, or null.
[[nodiscard]] Json const* find_member(Json const& object, std::string_view snake);

template <class T>
constexpr bool is_strong = false;
template <class T, class Tag>
constexpr bool is_strong<Strong<T, Tag>> = true;
template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_sequence = false;
template <class T>
constexpr bool is_sequence<std::vector<T>> = true;
template <class T>
constexpr bool is_sequence<std::deque<T>> = true;
template <class T>
constexpr bool is_map = false;
template <class K, class V>
constexpr bool is_map<std::map<K, V>> = true;
template <class T>
constexpr bool is_variant = false;
template <class... Ts>
constexpr bool is_variant<std::variant<Ts...>> = true;

template <class T>
concept DescribedStruct =
    std::is_class_v<T> && boost::describe::has_describe_members<T>::value && !is_variant<T>;

template <class T>
using Members = boost::describe::describe_members<T, boost::describe::mod_public>;

template <class T>
[[nodiscard]] std::string_view name_of() {
    return described_name(static_cast<T const*>(nullptr));
}

template <class K>
[[nodiscard]] std::string const& key_text(K const& key) {
    if constexpr (is_strong<K>) {
        return key.value();
    } else {
        return key;
    }
}

// ---- writing

template <class T>
[[nodiscard]] Json write(T const& value, Style style);

template <class T>
[[nodiscard]] Json write_members(T const& value, Style style) {
    Json out = Json::object();
    boost::mp11::mp_for_each<Members<T>>([&](auto member) {
        auto name = style.naming == Naming::camel ? camel_case(member.name) : member.name;
        out.emplace(std::move(name), write(value.*member.pointer, style));
    });
    return out;
}

template <class T>
[[nodiscard]] Json write_sequence(T const& values, Style style) {
    Json out = Json::array();
    for (auto const& value : values) {
        out.push_back(write(value, style));
    }
    return out;
}

template <class T>
[[nodiscard]] Json write_map(T const& values, Style style) {
    Json out = Json::object();
    for (auto const& [key, value] : values) {
        out.emplace(clean_utf8(key_text(key)), write(value, style));
    }
    return out;
}

template <class... Ts>
[[nodiscard]] Json write_variant(std::variant<Ts...> const& value, Style style) {
    return std::visit(
        [&]<class T>(T const& alternative) {
            Json out = Json::object();
            out.emplace(std::string(name_of<T>()), write(alternative, style));
            return out;
        },
        value
    );
}

template <class T>
Json write(T const& value, Style style) {
    if constexpr (std::is_same_v<T, std::string>) {
        return clean_utf8(value);
    } else if constexpr (std::is_same_v<T, Bytes>) {
        return bytes_value(value, style);
    } else if constexpr (std::is_same_v<T, double>) {
        return std::isfinite(value) ? value : 0.0; // Neither format has a word for the others.
    } else if constexpr (std::is_enum_v<T>) {
        return enum_name(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
        return value;
    } else if constexpr (is_strong<T>) {
        return write(value.value(), style);
    } else if constexpr (is_optional<T>) {
        return value ? write(*value, style) : Json();
    } else if constexpr (is_sequence<T>) {
        return write_sequence(value, style);
    } else if constexpr (is_map<T>) {
        return write_map(value, style);
    } else if constexpr (is_variant<T>) {
        return write_variant(value, style);
    } else {
        static_assert(DescribedStruct<T>, "describe this type (model/describe.hpp)");
        return write_members(value, style);
    }
}

// ---- reading: false, with `failure` filled in, when the document is wrong

template <class T>
[[nodiscard]] bool read(Json const& in, T& out, Failure& failure);

template <class T, class Member>
[[nodiscard]] bool read_member(Json const& in, T& out, Member member, Failure& failure) {
    auto& field = out.*member.pointer;
    Json const* const found = find_member(in, member.name);
    if (found != nullptr) {
        return read(*found, field, failure) || failure.inside(member.name);
    }
    bool const may_be_absent =
        is_optional<std::remove_reference_t<decltype(field)>> || absent_fields_keep_defaults<T>;
    return may_be_absent || failure.set("is missing") || failure.inside(member.name);
}

template <class T>
[[nodiscard]] bool read_members(Json const& in, T& out, Failure& failure) {
    if (!expect_object(in, failure)) {
        return false;
    }
    bool good = true;
    boost::mp11::mp_for_each<Members<T>>([&](auto member) {
        good = good && read_member(in, out, member, failure);
    });
    return good;
}

template <class T>
[[nodiscard]] bool read_integer(Json const& in, T& out, Failure& failure) {
    if constexpr (std::is_unsigned_v<T>) {
        std::uint64_t wide = 0;
        bool const good = read_unsigned(in, std::numeric_limits<T>::max(), wide, failure);
        out = static_cast<T>(wide);
        return good;
    } else {
        std::int64_t wide = 0;
        using Limits = std::numeric_limits<T>;
        bool const good = read_signed(in, Limits::min(), Limits::max(), wide, failure);
        out = static_cast<T>(wide);
        return good;
    }
}

template <class T>
[[nodiscard]] bool read_enum(Json const& in, T& out, Failure& failure) {
    std::string name;
    if (!read_text(in, name, failure)) {
        return false;
    }
    Result<T> const value = enum_from_name<T>(name);
    if (!value) {
        return failure.set(value.error().text());
    }
    out = *value;
    return true;
}

template <class T>
[[nodiscard]] bool read_sequence(Json const& in, T& out, Failure& failure) {
    if (!expect_array(in, failure)) {
        return false;
    }
    out.clear(); // Members may have defaults.
    for (std::size_t i = 0; i < in.size(); ++i) {
        out.emplace_back();
        if (!read(in[i], out.back(), failure)) {
            return failure.inside(i);
        }
    }
    return true;
}

template <class K, class V>
[[nodiscard]] bool read_map(Json const& in, std::map<K, V>& out, Failure& failure) {
    if (!expect_object(in, failure)) {
        return false;
    }
    out.clear();
    for (auto const& [name, value] : in.items()) {
        K key;
        if (!read(Json(name), key, failure) || !read(value, out[key], failure)) {
            return failure.inside(name);
        }
    }
    return true;
}

// The alternative whose tag is the only key of `in`; false without a failure if there is none.
template <class... Ts>
[[nodiscard]] bool
read_tagged(Json const& in, std::variant<Ts...>& out, bool& known, Failure& failure) {
    if (!in.is_object() || in.size() != 1) {
        return false;
    }
    std::string const& tag = in.begin().key();
    auto const attempt = [&]<class T>(std::type_identity<T>) {
        if (known || tag != name_of<T>()) {
            return false;
        }
        known = true;
        T value;
        bool const good = read(*in.begin(), value, failure) || failure.inside(tag);
        if (good) {
            out = std::move(value);
        }
        return good;
    };
    return (attempt(std::type_identity<Ts>{}) || ...);
}

template <class... Ts>
[[nodiscard]] bool read_variant(Json const& in, std::variant<Ts...>& out, Failure& failure) {
    bool known = false;
    if (read_tagged(in, out, known, failure)) {
        return true;
    }
    if (known) {
        return false; // A known tag with a wrong content.
    }
    if constexpr (sizeof...(Ts) == 1) {
        using Only = std::variant_alternative_t<0, std::variant<Ts...>>;
        Only value;
        bool const good = read(in, value, failure);
        out = std::move(value);
        return good;
    } else {
        if (in.is_object() && in.size() == 1) {
            failure.code = Errc::unsupported;
            return failure.set("unknown kind \"" + in.begin().key() + "\"");
        }
        return failure.set("an object with one key, the kind, expected");
    }
}

template <class T>
bool read(Json const& in, T& out, Failure& failure) {
    if constexpr (std::is_same_v<T, std::string>) {
        return read_text(in, out, failure);
    } else if constexpr (std::is_same_v<T, Bytes>) {
        return read_bytes(in, out, failure);
    } else if constexpr (std::is_same_v<T, double>) {
        return read_double(in, out, failure);
    } else if constexpr (std::is_same_v<T, bool>) {
        return read_bool(in, out, failure);
    } else if constexpr (std::is_enum_v<T>) {
        return read_enum(in, out, failure);
    } else if constexpr (std::is_integral_v<T>) {
        return read_integer(in, out, failure);
    } else if constexpr (is_strong<T>) {
        typename T::Value value{};
        bool const good = read(in, value, failure);
        out = T(std::move(value));
        return good;
    } else if constexpr (is_optional<T>) {
        out.reset();
        return in.is_null() || read(in, out.emplace(), failure);
    } else if constexpr (is_sequence<T>) {
        return read_sequence(in, out, failure);
    } else if constexpr (is_map<T>) {
        return read_map(in, out, failure);
    } else if constexpr (is_variant<T>) {
        return read_variant(in, out, failure);
    } else {
        static_assert(DescribedStruct<T>, "describe this type (model/describe.hpp)");
        return read_members(in, out, failure);
    }
}

template <class E>
[[nodiscard]] std::string spelled(std::string_view enumerator) {
    return names_stay_lower_case<E> ? std::string(enumerator) : pascal_case(enumerator);
}

[[nodiscard]] Bytes msgpack_of(Json const& json);

} // namespace exo::model::codec

namespace exo::model {

template <class T>
nlohmann::json to_json(T const& value, Naming naming) {
    return codec::write(value, {.naming = naming});
}

template <class T>
Result<T> from_json(nlohmann::json const& json) {
    T value{};
    codec::Failure failure;
    if (!codec::read(json, value, failure)) {
        return failure.error();
    }
    return value;
}

template <class T>
Bytes to_msgpack(T const& value) {
    return codec::msgpack_of(codec::write(value, {.naming = Naming::snake, .binary = true}));
}

template <class T>
Result<T> from_msgpack(BytesView bytes) {
    Result<nlohmann::json> const json = parse_msgpack(bytes);
    if (!json) {
        return json.error();
    }
    return from_json<T>(*json);
}

template <class E>
std::string enum_name(E value) {
    std::string name;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>([&](auto enumerator) {
        if (enumerator.value == value) {
            name = codec::spelled<E>(enumerator.name);
        }
    });
    return name;
}

template <class E>
Result<E> enum_from_name(std::string_view name) {
    std::optional<E> found;
    std::string names;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>([&](auto enumerator) {
        std::string const spelling = codec::spelled<E>(enumerator.name);
        if (spelling == name) {
            found = enumerator.value;
        }
        names += (names.empty() ? "" : ", ") + spelling;
    });
    if (!found) {
        return Error(Errc::invalid_argument, "one of " + names + " expected");
    }
    return *found;
}

} // namespace exo::model
