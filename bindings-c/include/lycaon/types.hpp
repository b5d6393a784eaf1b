/// @file
/// Element types, enumerations and views of lycaon's C++ interface.

#ifndef LYCAON_TYPES_HPP
#define LYCAON_TYPES_HPP

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

#include "lycaon.h"

namespace lycaon {

/// The type of one element of a buffer.
enum class DType : int {
    boolean = LYCAON_DTYPE_BOOL,
    i8 = LYCAON_DTYPE_I8,
    i16 = LYCAON_DTYPE_I16,
    i32 = LYCAON_DTYPE_I32,
    i64 = LYCAON_DTYPE_I64,
    u8 = LYCAON_DTYPE_U8,
    u16 = LYCAON_DTYPE_U16,
    u32 = LYCAON_DTYPE_U32,
    u64 = LYCAON_DTYPE_U64,
    f16 = LYCAON_DTYPE_F16,
    bf16 = LYCAON_DTYPE_BF16,
    f32 = LYCAON_DTYPE_F32,
    f64 = LYCAON_DTYPE_F64,
    complex64 = LYCAON_DTYPE_COMPLEX64,
    complex128 = LYCAON_DTYPE_COMPLEX128,
    none = LYCAON_DTYPE_NONE,
};

/// How contributions are combined.
enum class Op : int {
    sum = LYCAON_OP_SUM,
    prod = LYCAON_OP_PROD,
    min = LYCAON_OP_MIN,
    max = LYCAON_OP_MAX,
    avg = LYCAON_OP_AVG,
    bit_and = LYCAON_OP_BIT_AND,
    bit_or = LYCAON_OP_BIT_OR,
    bit_xor = LYCAON_OP_BIT_XOR,
    logical_and = LYCAON_OP_LOGICAL_AND,
    logical_or = LYCAON_OP_LOGICAL_OR,
    none = LYCAON_OP_NONE,
};

/// The operations of a group.
enum class Operation : int {
    all_reduce = LYCAON_OPERATION_ALL_REDUCE,
    all_gather = LYCAON_OPERATION_ALL_GATHER,
    reduce_scatter = LYCAON_OPERATION_REDUCE_SCATTER,
    broadcast = LYCAON_OPERATION_BROADCAST,
    reduce = LYCAON_OPERATION_REDUCE,
    gather = LYCAON_OPERATION_GATHER,
    scatter = LYCAON_OPERATION_SCATTER,
    all_to_all = LYCAON_OPERATION_ALL_TO_ALL,
    scan = LYCAON_OPERATION_SCAN,
    barrier = LYCAON_OPERATION_BARRIER,
    send = LYCAON_OPERATION_SEND,
    recv = LYCAON_OPERATION_RECV,
    send_recv = LYCAON_OPERATION_SEND_RECV,
    split = LYCAON_OPERATION_SPLIT,
    /// None, or all of them.
    none = LYCAON_OPERATION_NONE,
};

/// How a collective is carried out.
enum class Algorithm : int {
    none = LYCAON_ALGORITHM_NONE,
    direct = LYCAON_ALGORITHM_DIRECT,
    two_step = LYCAON_ALGORITHM_TWO_STEP,
    ring = LYCAON_ALGORITHM_RING,
    logarithmic = LYCAON_ALGORITHM_LOGARITHMIC,
    arena = LYCAON_ALGORITHM_ARENA,
};

/// What joins one pair of ranks. Kinds that this header has no name for keep their number.
enum class LinkKind : int {
    none = LYCAON_LINK_KIND_NONE,
    memory = LYCAON_LINK_KIND_MEMORY,
    shm = LYCAON_LINK_KIND_SHM,
    tcp = LYCAON_LINK_KIND_TCP,
    rdma = LYCAON_LINK_KIND_RDMA,
    other = LYCAON_LINK_KIND_OTHER,
};

/// The type of RDMA queue pairs.
enum class QueuePairs : int {
    /// Nothing is said: reliable ones where both ends have them.
    none = LYCAON_QUEUE_PAIRS_NONE,
    reliable = LYCAON_QUEUE_PAIRS_RELIABLE,
    unreliable = LYCAON_QUEUE_PAIRS_UNRELIABLE,
};

/// How far an operation in the flight recorder has come.
enum class State : int {
    running = LYCAON_STATE_RUNNING,
    completed = LYCAON_STATE_COMPLETED,
    failed = LYCAON_STATE_FAILED,
};

/// @cond internal
namespace detail {

inline std::uint32_t bits_of(float value) noexcept {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float from_bits(std::uint32_t bits) noexcept {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace detail
/// @endcond

/// bfloat16: the upper half of a binary32. Converts from and to float; rounds to nearest, ties to
/// even.
class bfloat16 {
public:
    /// Zero.
    bfloat16() = default;

    /// The nearest number.
    bfloat16(float value) noexcept {
        const std::uint32_t bits = detail::bits_of(value);
        if (std::isnan(value)) {
            // A payload that lies in the lower half alone must not become an infinity.
            bits_ = static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
        } else {
            bits_ = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
        }
    }

    /// The same number as a float.
    operator float() const noexcept {
        return detail::from_bits(static_cast<std::uint32_t>(bits_) << 16);
    }

    /// The number with these bits.
    static bfloat16 from_bits(std::uint16_t bits) noexcept {
        bfloat16 value;
        value.bits_ = bits;
        return value;
    }

    /// Its bits.
    std::uint16_t bits() const noexcept { return bits_; }

private:
    std::uint16_t bits_ = 0;
};

/// IEEE 754 binary16. Converts from and to float; rounds to nearest, ties to even.
class float16 {
public:
    /// Zero.
    float16() = default;

    /// The nearest number.
    float16(float value) noexcept {
        const std::uint32_t bits = detail::bits_of(value);
        const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
        const std::uint32_t size = bits & 0x7fffffffu;
        std::uint32_t half;
        if (size > 0x7f800000u) {
            half = 0x7e00u | ((size >> 13) & 0x03ffu);
        } else if (size >= 0x477ff000u) {
            half = 0x7c00u;
        } else if (size >= 0x38800000u) {
            const std::uint32_t moved = size - 0x38000000u;
            half = (moved + 0x0fffu + ((moved >> 13) & 1u)) >> 13;
        } else if (size > 0x33000000u) {
            // Subnormal: the unit is 2^-24, and the processor rounds to it.
            half = detail::bits_of(detail::from_bits(size) + 0.5f) - detail::bits_of(0.5f);
        } else {
            half = 0;
        }
        bits_ = static_cast<std::uint16_t>(sign | half);
    }

    /// The same number as a float.
    operator float() const noexcept {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits_ & 0x8000u) << 16;
        const std::uint32_t exponent = (bits_ >> 10) & 0x1fu;
        const std::uint32_t fraction = bits_ & 0x03ffu;
        if (exponent == 0x1f) {
            return detail::from_bits(sign | 0x7f800000u | (fraction << 13));
        }
        if (exponent == 0) {
            const float size = static_cast<float>(fraction) * (1.0f / 16777216.0f);
            return detail::from_bits(sign | detail::bits_of(size));
        }
        return detail::from_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
    }

    /// The number with these bits.
    static float16 from_bits(std::uint16_t bits) noexcept {
        float16 value;
        value.bits_ = bits;
        return value;
    }

    /// Its bits.
    std::uint16_t bits() const noexcept { return bits_; }

private:
    std::uint16_t bits_ = 0;
};

#if defined(__cpp_lib_span)
/// A view of elements: std::span, since this is C++20.
template <class T>
using span = std::span<T>;
#else
/// A view of elements: as much of std::span as a C++17 program needs here.
template <class T>
class span {
public:
    /// The type of the elements, const if they are only read.
    using element_type = T;
    /// The type of the elements, without const.
    using value_type = std::remove_cv_t<T>;

    /// Of nothing.
    constexpr span() noexcept = default;
    /// Of so many elements.
    constexpr span(T* first, std::size_t count) noexcept : first_(first), count_(count) {}

    /// Of an array.
    template <std::size_t N>
    constexpr span(T (&array)[N]) noexcept : first_(array), count_(N) {}

    /// Of whatever has std::data and std::size.
    template <class Range,
              class = std::enable_if_t<std::is_convertible_v<
                  std::remove_pointer_t<decltype(std::data(std::declval<Range&>()))> (*)[],
                  T (*)[]>>>
    constexpr span(Range& range) : first_(std::data(range)), count_(std::size(range)) {}

    /// The first element.
    constexpr T* data() const noexcept { return first_; }
    /// How many elements there are.
    constexpr std::size_t size() const noexcept { return count_; }
    /// Whether there are none.
    constexpr bool empty() const noexcept { return count_ == 0; }
    /// Where they begin.
    constexpr T* begin() const noexcept { return first_; }
    /// Behind the last one.
    constexpr T* end() const noexcept { return first_ + count_; }
    /// One element; it must be there.
    constexpr T& operator[](std::size_t at) const { return first_[at]; }

private:
    T* first_ = nullptr;
    std::size_t count_ = 0;
};

#endif

/// Makes a buffer of what is no container.
template <class T>
constexpr span<T> view(T* first, std::size_t count) noexcept {
    return span<T>(first, count);
}

/// @cond internal
namespace detail {

template <class T>
constexpr DType integer() noexcept {
    constexpr bool with_sign = std::is_signed_v<T>;
    switch (sizeof(T)) {
        case 1:
            return with_sign ? DType::i8 : DType::u8;
        case 2:
            return with_sign ? DType::i16 : DType::u16;
        case 4:
            return with_sign ? DType::i32 : DType::u32;
        default:
            return with_sign ? DType::i64 : DType::u64;
    }
}

/// Says which element type a C++ type is. `known` is false for types that are none.
template <class T, class = void>
struct Element {
    static constexpr bool known = false;
};

template <DType D>
struct Known {
    static constexpr bool known = true;
    static constexpr DType dtype = D;
};

template <class T>
inline constexpr bool is_character = std::is_same_v<T, wchar_t> || std::is_same_v<T, char16_t> ||
                                     std::is_same_v<T, char32_t>;

template <class T>
struct Element<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                   !is_character<T> && sizeof(T) <= 8>> : Known<integer<T>()> {};

template <>
struct Element<bool> : Known<DType::boolean> {
    static_assert(sizeof(bool) == 1, "a bool of lycaon is a byte");
};
template <>
struct Element<std::byte> : Known<DType::u8> {};
template <>
struct Element<float16> : Known<DType::f16> {};
template <>
struct Element<bfloat16> : Known<DType::bf16> {};
template <>
struct Element<float> : Known<DType::f32> {};
template <>
struct Element<double> : Known<DType::f64> {};
template <>
struct Element<std::complex<float>> : Known<DType::complex64> {};
template <>
struct Element<std::complex<double>> : Known<DType::complex128> {};

static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2, "half types are two bytes");
static_assert(std::is_trivially_copyable_v<float16> && std::is_trivially_copyable_v<bfloat16>,
              "half types are plain bytes");

/// What `std::data` of a range points to, with its constness.
template <class Range>
using Pointee = std::remove_pointer_t<decltype(std::data(std::declval<Range&>()))>;

/// The element type of a range.
template <class Range>
using Value = std::remove_cv_t<Pointee<Range>>;

template <class T>
struct IsView : std::false_type {};
#if defined(__cpp_lib_span)
template <class T, std::size_t N>
struct IsView<std::span<T, N>> : std::true_type {};
#else
template <class T>
struct IsView<span<T>> : std::true_type {};
#endif

/// Whether the memory of a range outlives the expression that names it.
template <class Range>
inline constexpr bool outlives =
    std::is_lvalue_reference_v<Range> ||
    IsView<std::remove_cv_t<std::remove_reference_t<Range>>>::value;

/// A buffer that is read.
template <class Range>
constexpr span<const Value<Range>> in(const Range& range) {
    static_assert(Element<Value<Range>>::known, "lycaon has no such element type");
    return span<const Value<Range>>(std::data(range), std::size(range));
}

/// A buffer that is written.
template <class Range>
constexpr span<Value<Range>> out(Range& range) {
    static_assert(Element<Value<Range>>::known, "lycaon has no such element type");
    static_assert(!std::is_const_v<Pointee<Range>>, "lycaon writes this buffer, which is const");
    return span<Value<Range>>(std::data(range), std::size(range));
}

}  // namespace detail
/// @endcond

/// The element type of a C++ type, for example `dtype_of<float> == DType::f32`.
template <class T>
inline constexpr DType dtype_of = detail::Element<std::remove_cv_t<T>>::dtype;

}  // namespace lycaon

#endif
