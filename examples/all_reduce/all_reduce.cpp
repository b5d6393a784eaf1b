// Every rank gives a vector; all get the sum, the maximum and the mean.
#include <cstdio>
#include <vector>

#include <lycaon/lycaon.hpp>

namespace {

void print(const char* name, const std::vector<float>& data, const char* after) {
    std::printf("%s [%.1f, %.1f, %.1f, %.1f]%s", name, data[0], data[1], data[2], data[3], after);
}

}  // namespace

int main() try {
    const lycaon::Group group = lycaon::init();
    std::vector<float> mine;
    for (int at = 0; at < 4; ++at) {
        mine.push_back(static_cast<float>(at + 10 * group.rank()));
    }

    // In place: the result replaces the data.
    std::vector<float> sum = mine;
    group.all_reduce(sum, lycaon::Op::sum);

    // From one buffer into another.
    std::vector<float> largest(mine.size()), mean(mine.size());
    group.all_reduce(mine, largest, lycaon::Op::max);
    group.all_reduce(mine, mean, lycaon::Op::avg);

    std::printf("rank %d of %d: ", group.rank(), group.size());
    print("sum", sum, ", ");
    print("max", largest, ", ");
    print("mean", mean, "\n");
} catch (const lycaon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
