// The half types: every number, and rounding between each two neighbours.
#include <cmath>
#include <cstdint>
#include <limits>
#include <list>

#include "check.hpp"

namespace {

/// Every pair of finite neighbours: what lies between them rounds to the nearer one, and from the
/// middle to the even one.
template <class Half>
void rounding(std::uint16_t infinity) {
    for (std::uint16_t bits = 0; bits < infinity - 1; ++bits) {
        for (const std::uint16_t sign : {std::uint16_t{0}, std::uint16_t{0x8000}}) {
            const auto low = static_cast<std::uint16_t>(bits | sign);
            const auto high = static_cast<std::uint16_t>((bits + 1) | sign);
            const float a = Half::from_bits(low), b = Half::from_bits(high);
            const float middle = static_cast<float>((static_cast<double>(a) + b) / 2);
            CHECK(Half(middle).bits() == (bits % 2 == 0 ? low : high));
            CHECK(Half(std::nextafter(middle, a)).bits() == low);
            CHECK(Half(std::nextafter(middle, b)).bits() == high);
        }
    }
}

template <class Half>
void numbers(std::uint16_t infinity) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto number = Half::from_bits(static_cast<std::uint16_t>(bits));
        const float value = number;
        const bool is_nan = (bits & 0x7fff) > infinity;
        CHECK(std::isnan(value) == is_nan);
        CHECK(std::signbit(value) == (bits >= 0x8000));
        if (is_nan) {
            CHECK(std::isnan(static_cast<float>(Half(value))));
        } else {
            CHECK(Half(value).bits() == bits);
        }
    }
    const float inf = std::numeric_limits<float>::infinity();
    CHECK(Half(inf).bits() == infinity && Half(-inf).bits() == (infinity | 0x8000));
    CHECK(Half(std::numeric_limits<float>::max()).bits() == infinity);
}

/// A NaN whose payload lies in the bits that go.
template <class Half>
void low_nan() {
    const std::uint32_t bits = 0x7f800001;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    CHECK(std::isnan(static_cast<float>(Half(value))));
}

static_assert(lycaon::dtype_of<long> == lycaon::DType::i64 || sizeof(long) == 4);
static_assert(lycaon::dtype_of<const float> == lycaon::DType::f32);
static_assert(lycaon::dtype_of<std::complex<double>> == lycaon::DType::complex128);
static_assert(lycaon::dtype_of<bool> == lycaon::DType::boolean);
static_assert(!lycaon::detail::Element<char16_t>::known && !lycaon::detail::Element<int*>::known);
static_assert(!std::is_copy_constructible_v<lycaon::Group> && !std::is_copy_assignable_v<lycaon::Group>);
static_assert(std::is_nothrow_move_constructible_v<lycaon::Group>);
static_assert(!std::is_copy_constructible_v<lycaon::Work> && std::is_move_assignable_v<lycaon::Work>);
static_assert(!std::is_copy_constructible_v<lycaon::Config>);
static_assert(std::is_nothrow_copy_constructible_v<lycaon::Error>);

}  // namespace

int main() {
    numbers<lycaon::float16>(0x7c00);
    numbers<lycaon::bfloat16>(0x7f80);
    rounding<lycaon::float16>(0x7c00);
    rounding<lycaon::bfloat16>(0x7f80);
    low_nan<lycaon::float16>();
    low_nan<lycaon::bfloat16>();
    // The largest number, and where infinity begins.
    CHECK(lycaon::float16(65519.996f).bits() == 0x7bff && lycaon::float16(65520.0f).bits() == 0x7c00);
    std::puts("types: ok");
}
