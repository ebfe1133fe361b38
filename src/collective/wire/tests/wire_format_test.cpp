// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "collective/wire/wire_format.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace exo::collective {
namespace {

using Values = std::vector<float>;

constexpr WireFormat formats[] = {WireFormat::f32, WireFormat::f16, WireFormat::q8};
constexpr std::size_t counts[] = {0, 1, 2, 31, 32, 33, 64, 100, 2304, 5000};

Bytes packed(WireFormat format, Values const& values) {
    Bytes bytes(wire_bytes(format, values.size()));
    to_wire(format, values, bytes);
    return bytes;
}

Values wire_form(WireFormat format, Values const& values) {
    Values result(values.size());
    from_wire(format, packed(format, values), result);
    return result;
}

// Of very different sizes, around 2^`around`, also within a block.
Values random_values(std::uint64_t seed, std::size_t count, int around, std::uint64_t spread) {
    Random random(seed);
    Values values(count);
    for (auto& value : values) {
        auto const mantissa = static_cast<float>(random.below(2'000'001)) / 1e6f - 1.0f;
        value = std::ldexp(mantissa, around - static_cast<int>(random.below(spread + 1)));
    }
    return values;
}

float largest_of_block(Values const& values, std::size_t i) {
    std::size_t const first = i / wire_block_values * wire_block_values;
    float largest = 0;
    for (std::size_t k = first; k < std::min(first + wire_block_values, values.size()); ++k) {
        largest = std::max(largest, std::abs(values[k]));
    }
    return largest;
}

// The bounds that the header promises.
double bound(WireFormat format, float value, float largest) {
    switch (format) {
    case WireFormat::f16:
        return std::ldexp(std::abs(double{value}), -11) + std::ldexp(double{largest}, -39);
    case WireFormat::q8:
        return double{largest} / 252;
    case WireFormat::automatic:
    case WireFormat::f32:
        break;
    }
    return 0;
}

TEST(WireFormat, an_f32_keeps_every_bit) {
    auto const values = random_values(1, 1000, 100, 200);
    EXPECT_EQ(wire_form(WireFormat::f32, values), values);
}

TEST(WireFormat, no_value_changes_by_more_than_is_promised) {
    for (auto const format : formats) {
        for (auto const count : counts) {
            for (int const around : {-60, -20, 0, 3, 17, 100}) {
                for (std::uint64_t const spread : {0u, 4u, 30u}) {
                    auto const values = random_values(count + spread, count, around, spread);
                    auto const result = wire_form(format, values);
                    for (std::size_t i = 0; i < count; ++i) {
                        auto const limit = bound(format, values[i], largest_of_block(values, i));
                        ASSERT_LE(std::abs(double{result[i]} - double{values[i]}), limit)
                            << to_string(format) << " of " << values[i] << " among " << count;
                    }
                }
            }
        }
    }
}

TEST(WireFormat, the_wire_form_of_a_wire_form_is_itself) {
    for (auto const format : formats) {
        for (auto const count : counts) {
            for (std::uint64_t seed = 0; seed < 50; ++seed) {
                auto const around = static_cast<int>(seed * 5) - 125;
                auto const once = wire_form(format, random_values(seed, count, around, seed % 40));
                ASSERT_EQ(wire_form(format, once), once) << to_string(format) << " seed " << seed;
                ASSERT_EQ(packed(format, once), packed(format, wire_form(format, once)));
            }
        }
    }
}

// Where rounding carries into the next power of two, the exponent must not change afterwards.
TEST(WireFormat, a_largest_value_that_rounds_up_keeps_its_block_stable) {
    for (std::uint32_t bits = 0x47ffe000 - 64; bits < 0x48000040; ++bits) {
        Values values(32, 3e-6f);
        values[7] = std::bit_cast<float>(bits);
        auto const once = wire_form(WireFormat::f16, values);
        ASSERT_EQ(wire_form(WireFormat::f16, once), once) << values[7];
    }
}

TEST(WireFormat, activations_beyond_half_precision_do_not_overflow) {
    Values const values{1e5f, -3e6f, 70'000.0f, 1.0f, 0.0f};
    auto const result = wire_form(WireFormat::f16, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(result[i], values[i], std::abs(values[i]) / 2000) << i;
    }
}

TEST(WireFormat, what_is_no_number_stays_none) {
    auto const infinity = std::numeric_limits<float>::infinity();
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    for (auto const format : formats) {
        for (float const special : {infinity, -infinity, nan}) {
            Values values(40, 1.0f);
            values[3] = special;
            auto const result = wire_form(format, values);
            EXPECT_FALSE(std::isfinite(result[3])) << to_string(format);
            EXPECT_NEAR(result[35], 1.0f, 0.01f) << "another block";
            for (std::size_t i = 0; i < 3 && format == WireFormat::q8; ++i) {
                EXPECT_TRUE(std::isnan(result[i]));
            }
        }
    }
}

TEST(WireFormat, zeros_and_tiny_values_stay_finite) {
    for (auto const format : formats) {
        EXPECT_EQ(wire_form(format, Values(33)), Values(33));
        Values const tiny(33, std::numeric_limits<float>::denorm_min());
        for (float const value : wire_form(format, tiny)) {
            EXPECT_LE(std::abs(value), 1e-30f);
        }
        Values const largest(33, std::numeric_limits<float>::max() / 2);
        for (float const value : wire_form(format, largest)) {
            EXPECT_NEAR(value / largest[0], 1.0f, 0.01f);
        }
    }
}

TEST(WireFormat, its_size_is_what_it_says) {
    EXPECT_EQ(wire_bytes(WireFormat::f32, 33), 132u);
    EXPECT_EQ(wire_bytes(WireFormat::f16, 33), 70u);
    EXPECT_EQ(wire_bytes(WireFormat::q8, 33), 37u);
    EXPECT_EQ(wire_bytes(WireFormat::q8, 0), 0u);
}

TEST(WireFormat, has_these_bytes) {
    // 1 is 2^14 * 2^-14, and 127 / 127; -0.5 beside it.
    EXPECT_EQ(to_hex(packed(WireFormat::f16, {1.0f, -0.5f})), "f2ff007400f0");
    EXPECT_EQ(to_hex(packed(WireFormat::q8, {127.0f, -64.0f})), "007f7fc0");
    EXPECT_EQ(to_hex(packed(WireFormat::f32, {1.0f})), "0000803f");
}

// A rank may send any bytes.
TEST(WireFormat, any_bytes_can_be_unpacked) {
    Random random(9);
    for (auto const format : formats) {
        for (int round = 0; round < 2000; ++round) {
            Bytes bytes(wire_bytes(format, 70));
            for (auto& byte : bytes) {
                byte = static_cast<std::uint8_t>(random.next());
            }
            Values values(70);
            from_wire(format, bytes, values);
        }
    }
}

// ---- halves

TEST(Halves, the_portable_code_and_the_cpu_agree_on_every_half) {
    auto const native = from_halves(HalfCode::native);
    if (native == nullptr) {
        GTEST_SKIP() << "this CPU has no instructions for halves";
    }
    for (std::uint32_t first = 0; first < 0x10000; first += wire_block_values) {
        std::array<std::uint16_t, wire_block_values> halves{};
        for (std::size_t i = 0; i < halves.size(); ++i) {
            halves[i] = static_cast<std::uint16_t>(first + i);
        }
        std::array<float, wire_block_values> one{};
        std::array<float, wire_block_values> other{};
        native(halves.data(), 4.0f, one.data());
        from_halves(HalfCode::portable)(halves.data(), 4.0f, other.data());
        for (std::size_t i = 0; i < halves.size(); ++i) {
            bool const both_nan = std::isnan(one[i]) && std::isnan(other[i]);
            ASSERT_TRUE(both_nan || one[i] == other[i]) << halves[i];
        }
    }
}

TEST(Halves, the_portable_code_and_the_cpu_round_every_float_alike) {
    auto const native = to_halves(HalfCode::native);
    if (native == nullptr) {
        GTEST_SKIP() << "this CPU has no instructions for halves";
    }
    Random random(5);
    for (int round = 0; round < 200'000; ++round) {
        std::array<float, wire_block_values> values{};
        for (auto& value : values) {
            auto bits = static_cast<std::uint32_t>(random.next());
            if (random.chance(1, 2)) { // In the range of halves, and often just between two.
                bits = (bits & 0x8fff'e000) + 0x3000'0000 +
                       static_cast<std::uint32_t>(random.below(3) * 0x1000);
            }
            value = std::bit_cast<float>(bits);
        }
        std::array<std::uint16_t, wire_block_values> one{};
        std::array<std::uint16_t, wire_block_values> other{};
        native(values.data(), 1.0f, one.data());
        to_halves(HalfCode::portable)(values.data(), 1.0f, other.data());
        ASSERT_EQ(one, other) << "round " << round;
    }
}

} // namespace
} // namespace exo::collective
