// Groups within groups: ranks as a grid whose rows and columns are groups of their own.
#include <cstdio>
#include <optional>

#include <lycaon/lycaon.hpp>

namespace {

// Ranks in one row of the grid.
constexpr int width = 2;

/// Sums a number over a group and prints who is in it.
void sum(const char* name, const lycaon::Group& group, int number, const char* after) {
    const int total = group.all_reduce_value(number, lycaon::Op::sum);
    std::printf("%s [", name);
    const char* between = "";
    for (const int member : group.members()) {
        std::printf("%s%d", between, member);
        between = ", ";
    }
    std::printf("] sums to %d%s", total, after);
}

}  // namespace

int main() try {
    const lycaon::Group group = lycaon::init();
    const int rank = group.rank(), row = rank / width, column = rank % width;

    // Ranks of one color form a group; the key says their order in it.
    const lycaon::Group across = group.split(row, column);
    const lycaon::Group down = group.split(column, row);
    // A rank may stay out.
    const std::optional<lycaon::Group> corner =
        group.split(row == 0 ? std::optional<int>(0) : std::nullopt);

    std::printf("rank %d: ", rank);
    sum("row", across, rank + 1, ", ");
    sum("column", down, rank + 1, "; of the first row it ");
    if (corner) {
        std::printf("is %d of %d\n", corner->rank(), corner->size());
    } else {
        std::puts("stays out");
    }
} catch (const lycaon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
