// A rank of a group whose ranks are written in different languages; see README.md.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <lycaon/lycaon.hpp>

namespace {

// What a rank has at a place. Divided by 7, so that the order of a sum shows in its bits.
float value(int rank, int at) {
    return static_cast<float>((at * 37 + rank * 101) % 1009) / 7.0f;
}

std::vector<float> values(int rank, int count) {
    std::vector<float> values;
    for (int at = 0; at < count; ++at) {
        values.push_back(value(rank, at));
    }
    return values;
}

// FNV-1a.
template <class T>
std::uint64_t checksum(const std::vector<T>& data) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
    for (std::size_t at = 0; at < data.size() * sizeof(T); ++at) {
        hash = (hash ^ bytes[at]) * 0x100000001b3u;
    }
    return hash;
}

std::uint64_t ring(const lycaon::Group& group) {
    const int rank = group.rank(), size = group.size();
    const int after = (rank + 1) % size, before = (rank + size - 1) % size;
    auto sum = values(rank, 1000);
    std::vector<float> got(1000);
    group.send_recv(sum, after, got, before, 1);
    for (std::size_t at = 0; at < sum.size(); ++at) {
        sum[at] += got[at];
    }
    std::vector<float> all(1000 * static_cast<std::size_t>(size));
    group.all_gather(sum, all);

    std::vector<float> baton(4);
    if (rank > 0) {
        group.recv(baton, before, 2);
    }
    for (int at = 0; at < 4; ++at) {
        baton[static_cast<std::size_t>(at)] += value(rank, at);
    }
    group.send(baton, after, 2);
    if (rank == 0) {
        group.recv(baton, before, 2);
    }
    group.broadcast(baton, 0);
    all.insert(all.end(), baton.begin(), baton.end());
    return checksum(all);
}

std::uint64_t split(const lycaon::Group& group) {
    const lycaon::Group part = group.split(group.rank() % 2, -group.rank());
    auto sum = values(group.rank(), 100);
    part.all_reduce(sum, lycaon::Op::sum);
    sum.push_back(static_cast<float>(part.rank()));
    sum.push_back(static_cast<float>(part.size()));
    std::vector<float> all(102 * static_cast<std::size_t>(group.size()));
    group.all_gather(sum, all);
    return checksum(all);
}

}  // namespace

int main() {
    try {
        const lycaon::Group group = lycaon::init();
        auto sum = values(group.rank(), 5000);
        group.all_reduce(sum, lycaon::Op::sum);

        std::vector<double> mine;
        for (int at = 0; at < 3; ++at) {
            mine.push_back(static_cast<double>(value(group.rank(), at)) / 3.0);
        }
        std::vector<double> all(3 * static_cast<std::size_t>(group.size()));
        group.all_gather(mine, all);
        const std::uint64_t around = ring(group), parts = split(group);

        std::printf("rank %d C++ all_reduce %016" PRIx64 " all_gather %016" PRIx64 " ring %016" PRIx64
                    " split %016" PRIx64 "\n",
                    group.rank(), checksum(sum), checksum(all), around, parts);
    } catch (const lycaon::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
