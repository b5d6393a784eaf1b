/// @file
/// Groups of ranks, with JACCL's names. Programs written for JACCL compile against this header and
/// run over lycaon; see docs/jaccl.md.

#ifndef LYCAON_JACCL_GROUP_H
#define LYCAON_JACCL_GROUP_H

#include <cstddef>
#include <memory>

namespace jaccl {

/// The type of one element.
enum Dtype {
    Bool = 0,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Complex64,
};

/// A group of ranks that compute together; init() makes one.
///
/// Every rank calls the same collectives in the same order. Buffers belong to the caller; input and
/// output are the same buffer, or do not overlap. What goes wrong is thrown as std::runtime_error,
/// in detail as one of lycaon's exceptions (lycaon/error.hpp): after a wrong argument the group goes
/// on, after any other failure every later call throws the first cause.
class Group {
public:
    virtual ~Group() = default;

    /// This rank, from 0 to size() - 1.
    virtual int rank() = 0;

    /// The number of ranks.
    virtual int size() = 0;

    /// Adds the inputs of all ranks, element by element, into every rank's output. Both have
    /// `n_bytes` bytes of elements of a Dtype.
    virtual void all_sum(const void* input, void* output, std::size_t n_bytes, int dtype) = 0;

    /// As all_sum(), with the largest element; NaN is larger than all. Complex numbers are compared
    /// by their real parts and then by their imaginary ones.
    virtual void all_max(const void* input, void* output, std::size_t n_bytes, int dtype) = 0;

    /// As all_max(), with the smallest element; NaN is smaller than all.
    virtual void all_min(const void* input, void* output, std::size_t n_bytes, int dtype) = 0;

    /// Every rank gets the inputs of all, in rank order: `output` has size() * n_bytes bytes.
    virtual void all_gather(const void* input, void* output, std::size_t n_bytes) = 0;

    /// Adds the inputs of all ranks and gives each its block of the sum: `output` has `n_bytes`
    /// bytes, `input` size() times as many.
    virtual void sum_scatter(const void* input, void* output, std::size_t n_bytes, int dtype) = 0;

    /// Sends to rank `dst`, which need not be a neighbour.
    virtual void send(const void* input, std::size_t n_bytes, int dst) = 0;

    /// Receives exactly `n_bytes` bytes from rank `src`.
    virtual void recv(void* output, std::size_t n_bytes, int src) = 0;

    /// Returns when every rank has called it.
    virtual void barrier() = 0;
};

}  // namespace jaccl

#endif
