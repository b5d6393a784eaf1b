#include "statistics.hpp"

#include <algorithm>
#include <cmath>

// Welford's method, which does not lose the digits that a sum of squares loses.
void Statistics::add(double value) {
    ++count;
    const double before = value - mean;
    mean += before / static_cast<double>(count);
    squares += before * (value - mean);
    least = std::min(least, value);
    most = std::max(most, value);
}

double Statistics::deviation() const {
    return count < 2 ? 0 : std::sqrt(squares / static_cast<double>(count - 1));
}
