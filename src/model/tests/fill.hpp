// SPDX-License-Identifier: Apache-2.0
//
// Values of any described type with every member set, for tests that must not miss one.
#pragma once

#include "base/random.hpp"
#include "model/json_codec.hpp"

namespace exo::model {

template <class T>
void fill(T& out, Random& random);

template <class... Ts>
void fill_variant(std::variant<Ts...>& out, Random& random) {
    std::size_t const chosen = random.below(sizeof...(Ts));
    std::size_t index = 0;
    auto const attempt = [&]<class T>(std::type_identity<T>) {
        if (index++ == chosen) {
            fill(out.template emplace<T>(), random);
        }
    };
    (attempt(std::type_identity<Ts>{}), ...);
}

template <class K, class V>
void fill_map(std::map<K, V>& out, Random& random) {
    for (std::uint64_t i = random.below(3); i > 0; --i) {
        K key;
        fill(key, random);
        fill(out[key], random);
    }
}

template <class T>
void fill_integer(T& out, Random& random) {
    std::array<T, 5> const corners{
        0, 1, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 42
    };
    out =
        random.chance(1, 2) ? corners[random.below(corners.size())] : static_cast<T>(random.next());
}

inline void fill_text(std::string& out, Random& random) {
    constexpr std::array<char const*, 6> texts{
        "", "a", "owner/repo:Q4_K_M", "\"quoted\"\n\t\\", "h\xc3\xa9llo \xf0\x9f\x98\x80", "\x01"
    };
    out = texts[random.below(texts.size())] + std::to_string(random.below(1000));
}

template <class T>
void fill(T& out, Random& random) {
    if constexpr (std::is_same_v<T, std::string>) {
        fill_text(out, random);
    } else if constexpr (std::is_same_v<T, bool>) {
        out = random.chance(1, 2);
    } else if constexpr (std::is_same_v<T, double>) {
        out = static_cast<double>(random.below(1'000'000)) / 1024.0;
    } else if constexpr (std::is_enum_v<T>) {
        std::vector<T> values;
        boost::mp11::mp_for_each<boost::describe::describe_enumerators<T>>([&](auto enumerator) {
            values.push_back(enumerator.value);
        });
        out = values[random.below(values.size())];
    } else if constexpr (std::is_integral_v<T>) {
        fill_integer(out, random);
    } else if constexpr (codec::is_strong<T>) {
        typename T::Value value{};
        fill(value, random);
        out = T(std::move(value));
    } else if constexpr (codec::is_optional<T>) {
        if (random.chance(1, 2)) {
            fill(out.emplace(), random);
        }
    } else if constexpr (codec::is_sequence<T>) {
        out.resize(random.below(3));
        for (auto& value : out) {
            fill(value, random);
        }
    } else if constexpr (codec::is_map<T>) {
        fill_map(out, random);
    } else if constexpr (codec::is_variant<T>) {
        fill_variant(out, random);
    } else {
        boost::mp11::mp_for_each<codec::Members<T>>([&](auto member) {
            fill(out.*member.pointer, random);
        });
    }
}

} // namespace exo::model
