// Statistics of the numbers in a file, one per line.
#include <cstdio>
#include <exception>
#include <fstream>

#include <lycaon/lycaon.hpp>

#include "statistics.hpp"

namespace {

/// The statistics of all ranks together, from those of each one.
Statistics combine(const lycaon::Group& group, const Statistics& part) {
    Statistics all;
    all.count = group.all_reduce_value(part.count, lycaon::Op::sum);
    all.least = group.all_reduce_value(part.least, lycaon::Op::min);
    all.most = group.all_reduce_value(part.most, lycaon::Op::max);
    if (all.count > 0) {
        const double count = static_cast<double>(part.count);
        all.mean = group.all_reduce_value(part.mean * count, lycaon::Op::sum) /
                   static_cast<double>(all.count);
        const double shift = part.mean - all.mean;
        all.squares = group.all_reduce_value(part.squares + shift * shift * count, lycaon::Op::sum);
    }
    return all;
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 2) {
        std::fprintf(stderr, "usage: %s FILE\n", arguments[0]);
        return 2;
    }
    const lycaon::Group group = lycaon::init();
    std::ifstream file(arguments[1]);
    Statistics part;
    double value = 0;
    for (int line = 0; file >> value; ++line) {
        if (line % group.size() == group.rank()) {
            part.add(value);
        }
    }
    if (!file.eof()) {
        std::fprintf(stderr, "%s cannot be read, or has what is no number\n", arguments[1]);
        return 1;
    }
    const Statistics all = combine(group, part);
    if (group.rank() == 0) {
        std::printf("%llu numbers from %g to %g, mean %g, deviation %g\n",
                    static_cast<unsigned long long>(all.count), all.least, all.most, all.mean,
                    all.deviation());
    }
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
