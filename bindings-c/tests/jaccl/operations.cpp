// A program as one writes it for JACCL: every operation and type against a reference.
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include <jaccl/jaccl.h>
#include <jaccl/types.h>

namespace {

void fail(const std::string& what) {
    std::cerr << what << std::endl;
    std::exit(1);
}

void expect(bool holds, const std::string& what) {
    if (!holds) {
        fail(what);
    }
}

// Differs by rank and position; sums over a few ranks are exact in every type.
template <class T>
T value(int rank, std::size_t at) {
    return static_cast<T>(static_cast<float>(1 + (rank * 5 + static_cast<int>(at % 11)) % 7));
}

template <>
bool value<bool>(int rank, std::size_t at) {
    return (static_cast<std::size_t>(rank) + at) % 3 == 0;
}

template <>
jaccl::complex64_t value<jaccl::complex64_t>(int rank, std::size_t at) {
    // Equal real parts, so that the imaginary ones decide now and then.
    return {value<float>(rank, at / 2), value<float>(rank + 1, at) - 3.0f};
}

template <class T>
T add(T one, T other) {
    if constexpr (std::is_same_v<T, bool>) {
        return one || other;
    } else {
        return static_cast<T>(one + other);
    }
}

enum class Kind { sum, max, min };

template <class T>
T expected(Kind kind, int size, std::size_t at) {
    // jaccl's own order of complex numbers is wanted.
    using jaccl::operator<;
    using jaccl::operator>;
    T result = value<T>(0, at);
    for (int rank = 1; rank < size; ++rank) {
        const T next = value<T>(rank, at);
        switch (kind) {
            case Kind::sum:
                result = add(result, next);
                break;
            case Kind::max:
                result = next > result ? next : result;
                break;
            case Kind::min:
                result = next < result ? next : result;
                break;
        }
    }
    return result;
}

template <class T>
bool same(T one, T other) {
    return std::memcmp(&one, &other, sizeof one) == 0;
}

template <class T>
void reduce(jaccl::Group& group, int dtype, std::size_t count) {
    const int size = group.size();
    const std::string what = "type " + std::to_string(dtype) + ", " + std::to_string(count);
    // std::vector<bool> has no bytes.
    const auto input = std::make_unique<T[]>(count + 1);
    const auto output = std::make_unique<T[]>(count + 1);
    const std::size_t bytes = count * sizeof(T);
    for (const Kind kind : {Kind::sum, Kind::max, Kind::min}) {
        for (const bool in_place : {false, true}) {
            T* from = in_place ? output.get() : input.get();
            for (std::size_t at = 0; at < count; ++at) {
                from[at] = value<T>(group.rank(), at);
            }
            switch (kind) {
                case Kind::sum:
                    group.all_sum(from, output.get(), bytes, dtype);
                    break;
                case Kind::max:
                    group.all_max(from, output.get(), bytes, dtype);
                    break;
                case Kind::min:
                    group.all_min(from, output.get(), bytes, dtype);
                    break;
            }
            for (std::size_t at = 0; at < count; ++at) {
                expect(same(output[at], expected<T>(kind, size, at)),
                       what + ": wrong at " + std::to_string(at));
            }
        }
    }
    // The blocks of sum_scatter follow one another in the input.
    const auto blocks = static_cast<std::size_t>(size);
    const auto large = std::make_unique<T[]>(count * blocks + 1);
    for (std::size_t at = 0; at < count * blocks; ++at) {
        large[at] = value<T>(group.rank(), at);
    }
    group.sum_scatter(large.get(), output.get(), bytes, dtype);
    for (std::size_t at = 0; at < count; ++at) {
        const std::size_t from = static_cast<std::size_t>(group.rank()) * count + at;
        expect(same(output[at], expected<T>(Kind::sum, size, from)),
               what + ": wrong sum_scatter at " + std::to_string(at));
    }
}

void gather(jaccl::Group& group, std::size_t count) {
    const auto size = static_cast<std::size_t>(group.size());
    std::vector<std::uint16_t> own(count);
    std::vector<std::uint16_t> all(count * size);
    for (std::size_t at = 0; at < count; ++at) {
        own[at] = static_cast<std::uint16_t>(at * 3 + static_cast<std::size_t>(group.rank()) * 7);
    }
    group.all_gather(own.data(), all.data(), count * 2);
    for (std::size_t at = 0; at < all.size(); ++at) {
        expect(all[at] == static_cast<std::uint16_t>(at % count * 3 + at / count * 7),
               "all_gather: wrong at " + std::to_string(at));
    }
}

// Around the ring, and then between ranks that are no neighbours.
void messages(jaccl::Group& group, std::size_t bytes) {
    const int rank = group.rank();
    const int size = group.size();
    for (int step = 1; step < size; ++step) {
        const int to = (rank + step) % size;
        const int from = (rank - step + size) % size;
        std::vector<unsigned char> out(bytes);
        std::vector<unsigned char> in(bytes);
        for (std::size_t at = 0; at < bytes; ++at) {
            out[at] = static_cast<unsigned char>(at + static_cast<std::size_t>(rank * 31 + to));
        }
        // A large message waits for its receiver, so some have to receive first.
        const bool receives_first = rank < to;
        for (int half = 0; half < 2; ++half) {
            if ((half == 0) == receives_first) {
                group.recv(in.data(), bytes, from);
            } else {
                group.send(out.data(), bytes, to);
            }
        }
        for (std::size_t at = 0; at < bytes; ++at) {
            const auto right = static_cast<unsigned char>(
                at + static_cast<std::size_t>(from * 31 + rank));
            expect(in[at] == right, "message: wrong at " + std::to_string(at));
        }
    }
}

// What is wrong is thrown, and the group goes on.
template <class Call>
void refused(const std::string& part, Call call) {
    try {
        call();
    } catch (const std::runtime_error& error) {
        expect(std::string(error.what()).find(part) != std::string::npos, error.what());
        return;
    }
    fail("nothing was thrown: " + part);
}

void mistakes(jaccl::Group& group) {
    float data[4] = {};
    refused("77 is no element type", [&] { group.all_sum(data, data, sizeof data, 77); });
    refused("-1 is no element type", [&] { group.all_min(data, data, sizeof data, -1); });
    refused("7 bytes are no whole number of elements of 4 bytes",
            [&] { group.all_max(data, data, 7, jaccl::Float32); });
    refused("overlap", [&] { group.all_sum(data, data + 1, 8, jaccl::Float32); });
    refused("not in the group", [&] { group.send(data, 4, group.size()); });
    refused("not in the group", [&] { group.recv(data, 4, -1); });
}

void not_a_number(jaccl::Group& group) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const bool last = group.rank() == group.size() - 1;
    float plain = last ? nan : 1.0f;
    group.all_max(&plain, &plain, sizeof plain, jaccl::Float32);
    jaccl::complex64_t number(1.0f, group.rank() == 0 ? nan : 2.0f);
    group.all_min(&number, &number, sizeof number, jaccl::Complex64);
    expect(std::isnan(plain) && std::isnan(number.imag()), "NaN was lost");
}

}  // namespace

int main() {
    expect(jaccl::is_available(), "not available");
    const std::shared_ptr<jaccl::Group> group = jaccl::init(/* strict= */ true);
    for (const std::size_t count : {0, 1, 3, 1000, 40001}) {
        for (int dtype = jaccl::Bool; dtype <= jaccl::Complex64; ++dtype) {
            jaccl::dispatch_all_types(dtype, [&](auto identity) {
                using T = JACCL_GET_TYPE(identity);
                reduce<T>(*group, dtype, count);
            });
        }
        group->barrier();
        messages(*group, count);
        if (count > 0) {
            gather(*group, count);
        }
    }
    messages(*group, 1 << 20);
    mistakes(*group);
    not_a_number(*group);
    std::cout << "rank " << group->rank() << " of " << group->size() << ": ok" << std::endl;
    return 0;
}
