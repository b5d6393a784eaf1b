/// @file
/// JACCL's operations by lycaon's. No part of the interface.

#ifndef LYCAON_JACCL_DETAIL_LINKED_HPP
#define LYCAON_JACCL_DETAIL_LINKED_HPP

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../../lycaon/group.hpp"
#include "../group.h"

namespace jaccl {
namespace detail {

static_assert(Bool == int(LYCAON_DTYPE_BOOL) && UInt8 == int(LYCAON_DTYPE_U8) &&
                  Float16 == int(LYCAON_DTYPE_F16) && BFloat16 == int(LYCAON_DTYPE_BF16) &&
                  Float64 == int(LYCAON_DTYPE_F64) && Complex64 == int(LYCAON_DTYPE_COMPLEX64),
              "the element types have the same numbers");

/// A group of lycaon behind JACCL's interface.
class LinkedGroup final : public Group {
public:
    explicit LinkedGroup(lycaon::Group group) : group_(std::move(group)) {}

    int rank() override { return group_.rank(); }

    int size() override { return group_.size(); }

    void all_sum(const void* input, void* output, std::size_t n_bytes, int dtype) override {
        reduce(input, output, n_bytes, dtype, LYCAON_OP_SUM);
    }

    void all_max(const void* input, void* output, std::size_t n_bytes, int dtype) override {
        if (dtype == Complex64) {
            extreme(input, output, n_bytes, true);
        } else {
            reduce(input, output, n_bytes, dtype, LYCAON_OP_MAX);
        }
    }

    void all_min(const void* input, void* output, std::size_t n_bytes, int dtype) override {
        if (dtype == Complex64) {
            extreme(input, output, n_bytes, false);
        } else {
            reduce(input, output, n_bytes, dtype, LYCAON_OP_MIN);
        }
    }

    void all_gather(const void* input, void* output, std::size_t n_bytes) override {
        check(lycaon_all_gather(group_.get(), input, output, n_bytes, LYCAON_DTYPE_U8));
    }

    void sum_scatter(const void* input, void* output, std::size_t n_bytes, int dtype) override {
        check(lycaon_reduce_scatter(group_.get(), input, output, count(n_bytes, dtype),
                                    static_cast<lycaon_dtype>(dtype), LYCAON_OP_SUM));
    }

    void send(const void* input, std::size_t n_bytes, int dst) override {
        check(lycaon_send(group_.get(), input, n_bytes, LYCAON_DTYPE_U8, dst, 0));
    }

    void recv(void* output, std::size_t n_bytes, int src) override {
        check(lycaon_recv(group_.get(), output, n_bytes, LYCAON_DTYPE_U8, src, 0));
    }

    void barrier() override { group_.barrier(); }

private:
    using Complex = std::complex<float>;

    static void check(lycaon_status status) { lycaon::detail::check(status); }

    /// How many elements so many bytes are.
    static std::size_t count(std::size_t n_bytes, int dtype) {
        const std::size_t size =
            dtype < 0 ? 0 : lycaon_dtype_size(static_cast<lycaon_dtype>(dtype));
        if (size == 0) {
            throw std::runtime_error("jaccl: " + std::to_string(dtype) +
                                     " is no element type, expected one of jaccl::Dtype");
        }
        if (n_bytes % size != 0) {
            throw std::runtime_error("jaccl: " + std::to_string(n_bytes) +
                                     " bytes are no whole number of elements of " +
                                     std::to_string(size) + " bytes");
        }
        return n_bytes / size;
    }

    void reduce(const void* input, void* output, std::size_t n_bytes, int dtype, lycaon_op op) {
        check(lycaon_all_reduce(group_.get(), input, output, count(n_bytes, dtype),
                                static_cast<lycaon_dtype>(dtype), op));
    }

    /// Complex numbers have no order of their own, so lycaon has no largest one; JACCL has. Each
    /// rank compares what all have, piece by piece.
    void extreme(const void* input, void* output, std::size_t n_bytes, bool largest) {
        constexpr std::size_t piece = 32768;
        const std::size_t whole = count(n_bytes, Complex64);
        const auto ranks = static_cast<std::size_t>(size());
        const auto* from = static_cast<const Complex*>(input);
        auto* to = static_cast<Complex*>(output);
        std::vector<Complex> all(std::min(piece, whole) * ranks);
        std::size_t done = 0;
        do {
            const std::size_t now = std::min(piece, whole - done);
            const bool some = now > 0;
            check(lycaon_all_gather(group_.get(), some ? from + done : from, all.data(), now,
                                    LYCAON_DTYPE_COMPLEX64));
            for (std::size_t at = 0; at < now; ++at) {
                Complex best = all[at];
                for (std::size_t rank = 1; rank < ranks; ++rank) {
                    const Complex other = all[rank * now + at];
                    if (!is_nan(best) && (is_nan(other) || better(other, best, largest))) {
                        best = other;
                    }
                }
                to[done + at] = best;
            }
            done += now;
        } while (done < whole);
    }

    static bool is_nan(Complex value) noexcept {
        return std::isnan(value.real()) || std::isnan(value.imag());
    }

    static bool better(Complex one, Complex other, bool largest) noexcept {
        const bool real = one.real() != other.real();
        const float a = real ? one.real() : one.imag();
        const float b = real ? other.real() : other.imag();
        return largest ? a > b : a < b;
    }

    lycaon::Group group_;
};

}  // namespace detail
}  // namespace jaccl

#endif
