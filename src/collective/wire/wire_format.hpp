// SPDX-License-Identifier: Apache-2.0
//
// The forms in which the values of a reduction travel. Pure, and the same bits on every machine:
// f16 by the CPU's own instructions equals f16 by the portable code.
//
// f16 and q8 go in blocks of 32 values, counted from the first value of a message; the last block
// may be shorter. Numbers are little-endian.
//
//     f32     4 bytes a value
//     f16     exponent 2 (signed), then 2 bytes a value: a half-precision number times
//             2 ^ exponent. The exponent brings the largest of the block just below the middle of
//             the range, so that no activation overflows (half precision ends at 65,504) and none
//             is lost beside its neighbours.
//     q8      scale 2, then 1 byte a value: a whole number of -127..127 times the scale. The scale
//             is the upper half of an f32 without its sign (8 bits of exponent, 8 of mantissa),
//             rounded up.
//
// What one way over the wire changes a value by, at most:
//
//     f32     nothing
//     f16     2 ^ -11 of the value, and 2 ^ -39 of the largest of its block
//     q8      1 / 252 of the largest of its block
//
// A block that holds an infinity or a NaN holds one afterwards too (in q8 all its values are NaN).
// Blocks whose largest is below 1e-30 become zeros in q8.
//
// The wire form of a wire form is itself, provided that blocks begin at the same values: a rank may
// pass on what it received by packing it again (schedules/schedule.hpp).
#pragma once

#include "base/bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace exo::collective {

enum class WireFormat : std::uint8_t {
    automatic, // As the links ask for: schedules/choice.hpp.
    f32,
    f16,
    q8,
};

[[nodiscard]] char const* to_string(WireFormat format);

constexpr std::size_t wire_block_values = 32;

// REQUIRES: not automatic, here and below.
[[nodiscard]] std::size_t wire_bytes(WireFormat format, std::size_t count);

// REQUIRES: `to` of wire_bytes(format, values.size()).
void to_wire(WireFormat format, std::span<float const> values, std::span<std::uint8_t> to);

// REQUIRES: `wire` of wire_bytes(format, values.size()).
void from_wire(WireFormat format, BytesView wire, std::span<float> values);

// What the halves of an f16 block are made by here, for tests: the portable code, or the CPU's.
enum class HalfCode { portable, native };

// Values to half-precision numbers and back, each times `factor`, a power of two, on the float's
// side. Whole blocks.
using ToHalves = void (*)(float const* values, float factor, std::uint16_t* halves);
using FromHalves = void (*)(std::uint16_t const* halves, float factor, float* values);

// Null where this CPU has no instructions for it.
[[nodiscard]] ToHalves to_halves(HalfCode code);
[[nodiscard]] FromHalves from_halves(HalfCode code);

} // namespace exo::collective
