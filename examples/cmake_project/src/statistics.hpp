// Count, mean, deviation and range of numbers, one after the other.
#pragma once

#include <cstdint>
#include <limits>

class Statistics {
public:
    void add(double value);

    std::uint64_t count = 0;
    double mean = 0;
    /// The sum of the squared distances from the mean.
    double squares = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = -std::numeric_limits<double>::infinity();

    double deviation() const;
};
