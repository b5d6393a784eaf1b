/// @file
/// Element types, with JACCL's names.

#ifndef LYCAON_JACCL_TYPES_H
#define LYCAON_JACCL_TYPES_H

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "../lycaon/types.hpp"
#include "group.h"

namespace jaccl {

namespace detail {

/// A number of two bytes that computes as a float does: `Own` is the class of this name, `Plain`
/// knows the bits.
template <class Own, class Plain>
struct Half {
    std::uint16_t bits_ = 0;

    Half() = default;
    Half(float value) noexcept : bits_(Plain(value).bits()) {}

    operator float() const noexcept { return static_cast<float>(Plain::from_bits(bits_)); }

    Own operator+(Own other) const noexcept { return Own(float(*this) + float(other)); }
    bool operator<(Own other) const noexcept { return float(*this) < float(other); }
    bool operator>(Own other) const noexcept { return float(*this) > float(other); }

    Own& operator+=(Own other) noexcept {
        bits_ = (*this + other).bits_;
        return static_cast<Own&>(*this);
    }
};

}  // namespace detail

/// IEEE half precision. Converts from and to float, rounding to the nearest.
struct float16_t : detail::Half<float16_t, lycaon::float16> {
    using Half::Half;
};

/// bfloat16. Converts from and to float, rounding to the nearest.
struct bfloat16_t : detail::Half<bfloat16_t, lycaon::bfloat16> {
    using Half::Half;
};

/// What Complex64 is.
using complex64_t = std::complex<float>;

static_assert(sizeof(float16_t) == 2 && sizeof(bfloat16_t) == 2, "half types are two bytes");
static_assert(std::is_trivially_copyable_v<float16_t> && std::is_trivially_copyable_v<bfloat16_t>,
              "half types are plain bytes");

/// The order of complex numbers in all_min() and all_max(): by the real part, then the imaginary.
inline bool operator<(complex64_t one, complex64_t other) {
    return one.real() == other.real() ? one.imag() < other.imag() : one.real() < other.real();
}

/// The other way round.
inline bool operator>(complex64_t one, complex64_t other) { return other < one; }

/// Names a type in a value.
template <class T>
struct type_identity {
    using type = T;
};

/// The type that a value of type_identity names, inside of a generic lambda.
#define JACCL_GET_TYPE(identity) typename decltype(identity)::type

/// Calls a function with the type_identity of an element type; with nothing if `dtype` is none.
template <class F>
void dispatch_all_types(int dtype, F&& f) {
    const auto call = [&](Dtype of, auto identity) {
        if (dtype == of) {
            f(identity);
        }
    };
    call(Bool, type_identity<bool>{});
    call(Int8, type_identity<std::int8_t>{});
    call(Int16, type_identity<std::int16_t>{});
    call(Int32, type_identity<std::int32_t>{});
    call(Int64, type_identity<std::int64_t>{});
    call(UInt8, type_identity<std::uint8_t>{});
    call(UInt16, type_identity<std::uint16_t>{});
    call(UInt32, type_identity<std::uint32_t>{});
    call(UInt64, type_identity<std::uint64_t>{});
    call(Float16, type_identity<float16_t>{});
    call(BFloat16, type_identity<bfloat16_t>{});
    call(Float32, type_identity<float>{});
    call(Float64, type_identity<double>{});
    call(Complex64, type_identity<complex64_t>{});
}

}  // namespace jaccl

#endif
