// SPDX-License-Identifier: Apache-2.0
#include "collective/wire/wire_format.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace exo::collective {
namespace {

// Numbers are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

using Block = std::array<float, wire_block_values>;

struct HalfBlock {
    std::int16_t exponent = 0;
    std::array<std::uint16_t, wire_block_values> values{};
};

struct ByteBlock {
    std::uint16_t scale = 0;
    std::array<std::int8_t, wire_block_values> values{};
};

constexpr std::size_t head_bytes = 2; // Of either block.
static_assert(sizeof(HalfBlock) == head_bytes + 2 * wire_block_values);
static_assert(sizeof(ByteBlock) == head_bytes + wire_block_values);

constexpr std::uint32_t sign_bit = 0x8000'0000;
constexpr std::uint32_t infinity_bits = 0x7f80'0000;

std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

float float_of(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}

float power_of_two(int exponent) {
    return float_of(static_cast<std::uint32_t>(127 + exponent) << 23);
}

// The bits of the largest absolute value; NaN counts as larger than infinity.
std::uint32_t largest_bits(Block const& block) {
    std::uint32_t largest = 0;
    for (float const value : block) {
        largest = std::max(largest, bits_of(value) & ~sign_bit);
    }
    return largest;
}

// ---- halves

// Round to nearest, ties to even, as IEEE 754 has it.
std::uint16_t half_of(float value) {
    std::uint32_t const sign = bits_of(value) >> 16 & 0x8000;
    std::uint32_t const size = bits_of(value) & ~sign_bit;
    // Below the smallest normal half, an addition does the rounding: its result has as many bits.
    std::uint32_t const small = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
    std::uint32_t const rounded = size + 0xfff + (size >> 13 & 1);
    std::uint32_t const normal = (rounded - ((127 - 15) << 23)) >> 13;
    // A NaN stays one, and becomes a quiet one, as the CPU's instructions make it.
    std::uint32_t const special = size > infinity_bits ? 0x7e00 | (size >> 13 & 0x3ff) : 0x7c00;
    bool const is_small = size < bits_of(0x1p-14f);
    bool const is_special = size >= bits_of(65520.0f);
    return static_cast<std::uint16_t>(sign | (is_special ? special : is_small ? small : normal));
}

float float_of_half(std::uint16_t half) {
    std::uint32_t const sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
    std::uint32_t const rest = static_cast<std::uint32_t>(half & 0x7fff) << 13;
    std::uint32_t const special = rest | infinity_bits;
    float const finite = float_of(rest) * 0x1p112f; // Normal or not: its exponent moves.
    return float_of(sign | (rest >= 0x7c00u << 13 ? special : bits_of(finite)));
}

void to_halves_portable(float const* values, float factor, std::uint16_t* halves) {
    for (std::size_t i = 0; i < wire_block_values; ++i) {
        halves[i] = half_of(values[i] * factor);
    }
}

void from_halves_portable(std::uint16_t const* halves, float factor, float* values) {
    for (std::size_t i = 0; i < wire_block_values; ++i) {
        values[i] = float_of_half(halves[i]) * factor;
    }
}

#if defined(__x86_64__)

__attribute__((target("avx,f16c"))) void
to_halves_native(float const* values, float factor, std::uint16_t* halves) {
    for (std::size_t i = 0; i < wire_block_values; i += 8) {
        __m256 const scaled = _mm256_mul_ps(_mm256_loadu_ps(values + i), _mm256_set1_ps(factor));
        auto const packed = _mm256_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), packed);
    }
}

__attribute__((target("avx,f16c"))) void
from_halves_native(std::uint16_t const* halves, float factor, float* values) {
    for (std::size_t i = 0; i < wire_block_values; i += 8) {
        auto const packed = _mm_loadu_si128(reinterpret_cast<__m128i const*>(halves + i));
        __m256 const wide = _mm256_cvtph_ps(packed);
        _mm256_storeu_ps(values + i, _mm256_mul_ps(wide, _mm256_set1_ps(factor)));
    }
}

bool has_native() {
    return __builtin_cpu_supports("avx") != 0 && __builtin_cpu_supports("f16c") != 0;
}

#elif defined(__aarch64__)

// The compilers make vectors of these.
void to_halves_native(float const* values, float factor, std::uint16_t* halves) {
    for (std::size_t i = 0; i < wire_block_values; ++i) {
        halves[i] = std::bit_cast<std::uint16_t>(static_cast<__fp16>(values[i] * factor));
    }
}

void from_halves_native(std::uint16_t const* halves, float factor, float* values) {
    for (std::size_t i = 0; i < wire_block_values; ++i) {
        values[i] = static_cast<float>(std::bit_cast<__fp16>(halves[i])) * factor;
    }
}

bool has_native() {
    return true;
}

#else

constexpr ToHalves to_halves_native = nullptr;
constexpr FromHalves from_halves_native = nullptr;

bool has_native() {
    return false;
}

#endif

// The largest value lies in [2^14, 2^15] then: far from either end of the halves.
constexpr int exponent_of_largest = 14;
// Below, a value of a block may be too small for a normal float when it comes back.
constexpr int exponent_min = -100;

int half_exponent(std::uint32_t largest) {
    // Of the largest as it will be after rounding, so that the wire form has the same exponent.
    auto const exponent = static_cast<int>((largest + 0x1000) >> 23) - 127;
    return std::max(exponent - exponent_of_largest, exponent_min);
}

class HalfCoder {
public:
    using Wire = HalfBlock;

    HalfCoder()
        : to_(to_halves(has_native() ? HalfCode::native : HalfCode::portable))
        , from_(from_halves(has_native() ? HalfCode::native : HalfCode::portable)) {}

    [[nodiscard]] HalfBlock pack(Block const& block) const {
        HalfBlock made;
        int const exponent = half_exponent(largest_bits(block));
        made.exponent = static_cast<std::int16_t>(exponent);
        to_(block.data(), power_of_two(-exponent), made.values.data());
        return made;
    }

    void unpack(HalfBlock const& wire, Block& block) const {
        // Whatever a rank sends, the exponent stays one of a float.
        int const exponent = std::clamp<int>(wire.exponent, exponent_min, 120);
        from_(wire.values.data(), power_of_two(exponent), block.data());
    }

private:
    ToHalves to_;
    FromHalves from_;
};

// ---- bytes

constexpr float smallest_scaled = 1e-30f; // Below, a scale would have too few bits.
constexpr std::uint16_t no_number_scale = 0xff80;
// Added to a float of up to 2^22, it leaves the nearest whole number in the lowest bits.
constexpr float rounder = 12'582'912.0f; // 1.5 * 2^23

float scale_of(std::uint16_t wire) {
    return float_of(static_cast<std::uint32_t>(wire) << 15);
}

class ByteCoder {
public:
    using Wire = ByteBlock;

    [[nodiscard]] ByteBlock pack(Block const& block) const {
        ByteBlock made;
        std::uint32_t const largest = largest_bits(block);
        if (largest >= infinity_bits) {
            made.scale = no_number_scale;
            return made;
        }
        if (largest < bits_of(smallest_scaled)) {
            return made;
        }
        // Rounded up: the largest becomes 127 exactly, and its wire form has the same scale.
        std::uint32_t const scale = bits_of(float_of(largest) / 127.0f) + 0x7fff;
        made.scale = static_cast<std::uint16_t>(scale >> 15);
        float const factor = 1.0f / scale_of(made.scale);
        for (std::size_t i = 0; i < wire_block_values; ++i) {
            auto const rounded = bits_of(block[i] * factor + rounder);
            made.values[i] = static_cast<std::int8_t>(rounded & 0xff);
        }
        return made;
    }

    void unpack(ByteBlock const& wire, Block& block) const {
        float const scale = scale_of(wire.scale);
        for (std::size_t i = 0; i < wire_block_values; ++i) {
            block[i] = static_cast<float>(wire.values[i]) * scale;
        }
    }
};

// ---- messages

template <class Coder>
void pack_all(Coder const& coder, std::span<float const> values, std::uint8_t* to) {
    using Wire = typename Coder::Wire;
    constexpr std::size_t value_bytes = (sizeof(Wire) - head_bytes) / wire_block_values;
    while (!values.empty()) {
        std::size_t const count = std::min(values.size(), wire_block_values);
        Block block{};
        if (count == wire_block_values) { // A size that the compiler knows makes a copy cheap.
            std::memcpy(block.data(), values.data(), sizeof block);
        } else {
            std::memcpy(block.data(), values.data(), count * sizeof(float));
        }
        Wire const wire = coder.pack(block);
        if (count == wire_block_values) {
            std::memcpy(to, &wire, sizeof wire);
        } else {
            std::memcpy(to, &wire, head_bytes + count * value_bytes);
        }
        to += head_bytes + count * value_bytes;
        values = values.subspan(count);
    }
}

template <class Coder>
void unpack_all(Coder const& coder, std::uint8_t const* from, std::span<float> values) {
    using Wire = typename Coder::Wire;
    constexpr std::size_t value_bytes = (sizeof(Wire) - head_bytes) / wire_block_values;
    while (!values.empty()) {
        std::size_t const count = std::min(values.size(), wire_block_values);
        Wire wire;
        Block block{};
        if (count == wire_block_values) {
            std::memcpy(&wire, from, sizeof wire);
            coder.unpack(wire, block);
            std::memcpy(values.data(), block.data(), sizeof block);
        } else {
            std::memcpy(&wire, from, head_bytes + count * value_bytes);
            coder.unpack(wire, block);
            std::memcpy(values.data(), block.data(), count * sizeof(float));
        }
        from += head_bytes + count * value_bytes;
        values = values.subspan(count);
    }
}

} // namespace

char const* to_string(WireFormat format) {
    switch (format) {
    case WireFormat::automatic:
        return "automatic";
    case WireFormat::f32:
        return "f32";
    case WireFormat::f16:
        return "f16";
    case WireFormat::q8:
        return "q8";
    }
    return "unknown";
}

std::size_t wire_bytes(WireFormat format, std::size_t count) {
    EXO_ASSERT(format != WireFormat::automatic);
    std::size_t const blocks = (count + wire_block_values - 1) / wire_block_values;
    switch (format) {
    case WireFormat::automatic:
    case WireFormat::f32:
        return count * sizeof(float);
    case WireFormat::f16:
        return blocks * head_bytes + count * 2;
    case WireFormat::q8:
        return blocks * head_bytes + count;
    }
    return 0;
}

void to_wire(WireFormat format, std::span<float const> values, std::span<std::uint8_t> to) {
    EXO_ASSERT(to.size() == wire_bytes(format, values.size()));
    switch (format) {
    case WireFormat::automatic:
    case WireFormat::f32:
        std::ranges::copy(std::as_bytes(values), std::as_writable_bytes(to).begin());
        return;
    case WireFormat::f16:
        pack_all(HalfCoder(), values, to.data());
        return;
    case WireFormat::q8:
        pack_all(ByteCoder(), values, to.data());
        return;
    }
}

void from_wire(WireFormat format, BytesView wire, std::span<float> values) {
    EXO_ASSERT(wire.size() == wire_bytes(format, values.size()));
    switch (format) {
    case WireFormat::automatic:
    case WireFormat::f32:
        std::ranges::copy(std::as_bytes(wire), std::as_writable_bytes(values).begin());
        return;
    case WireFormat::f16:
        unpack_all(HalfCoder(), wire.data(), values);
        return;
    case WireFormat::q8:
        unpack_all(ByteCoder(), wire.data(), values);
        return;
    }
}

ToHalves to_halves(HalfCode code) {
    if (code == HalfCode::portable) {
        return to_halves_portable;
    }
    return has_native() ? to_halves_native : nullptr;
}

FromHalves from_halves(HalfCode code) {
    if (code == HalfCode::portable) {
        return from_halves_portable;
    }
    return has_native() ? from_halves_native : nullptr;
}

} // namespace exo::collective
