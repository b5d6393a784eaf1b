// Messages between two ranks: one that goes round all ranks, and a shift where everybody sends and
// receives at the same time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <lycaon/lycaon.hpp>

namespace {

// Messages with different tags do not wait for one another.
constexpr std::uint32_t baton_tag = 1, shift_tag = 2;

}  // namespace

int main() try {
    const lycaon::Group group = lycaon::init();
    const int rank = group.rank(), size = group.size();
    if (size == 1) {
        std::puts("one rank has nobody to write to");
        return 0;
    }
    const int after = (rank + 1) % size, before = (rank + size - 1) % size;

    // Each rank writes its number into the baton and hands it on.
    std::vector<std::int64_t> baton(static_cast<std::size_t>(size), -1);
    if (rank == 0) {
        baton[0] = 0;
        group.send(baton, after, baton_tag);
        group.recv(baton, before, baton_tag);
        std::printf("the baton came back as [");
        for (std::size_t at = 0; at < baton.size(); ++at) {
            std::printf("%s%lld", at == 0 ? "" : ", ", static_cast<long long>(baton[at]));
        }
        std::puts("]");
    } else {
        group.recv(baton, before, baton_tag);
        baton[static_cast<std::size_t>(rank)] = rank;
        group.send(baton, after, baton_tag);
    }

    // All at once: send and receive together, or a ring of ranks would wait for itself.
    const std::vector<double> mine(100000, rank + 0.5);
    std::vector<double> got(mine.size());
    group.send_recv(mine, after, got, before, shift_tag);
    if (std::any_of(got.begin(), got.end(), [&](double value) { return value != before + 0.5; })) {
        std::fprintf(stderr, "rank %d got something else\n", rank);
        return 1;
    }

    const auto records = group.flight_recorder();
    const auto messages = std::count_if(records.begin(), records.end(), [](const auto& record) {
        return record.operation == lycaon::Operation::send_recv;
    });
    std::printf("rank %d got %.1f from rank %d in %d exchange\n", rank, got[0], before,
                static_cast<int>(messages));
} catch (const lycaon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
