// What the test programs share. They are C++17 and C++20.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include <lycaon/lycaon.hpp>

/// Ends the program unless the condition holds.
#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                             \
        }                                                                             \
    } while (0)

/// Ends the program unless the expression throws this.
#define THROWS(Type, expression)                                                      \
    do {                                                                              \
        bool thrown_ = false;                                                         \
        try {                                                                         \
            expression;                                                               \
        } catch (const Type&) {                                                       \
            thrown_ = true;                                                           \
        }                                                                             \
        if (!thrown_) {                                                               \
            std::fprintf(stderr, "%s:%d: %s does not throw %s\n", __FILE__, __LINE__, \
                         #expression, #Type);                                         \
            std::exit(1);                                                             \
        }                                                                             \
    } while (0)

/// Data that differ by rank and position, small enough for every type to hold the sums exactly.
template <class T>
T value_of(int rank, std::size_t at) {
    const int value = 1 + (rank * 3 + static_cast<int>(at % 7)) % 5;
    if constexpr (std::is_same_v<T, std::byte>) {
        return static_cast<std::byte>(value);
    } else {
        return static_cast<T>(static_cast<float>(value));
    }
}

/// Lets the test know that this rank is in the middle of things.
inline void say_ready() {
    const char* path = std::getenv("READY");
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
    CHECK(file != nullptr && std::fclose(file) == 0);
}
