// The loop of the benchmark `overhead` in C++.
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>

#include <lycaon/lycaon.hpp>

namespace {

std::optional<lycaon::Group> group;

}  // namespace

/// Forms the group; 0 if that has worked.
extern "C" std::int32_t start(const char* meeting, std::int32_t rank, std::int32_t size) {
    try {
        lycaon::Config config;
        config.rank(rank).size(size).links({lycaon::LinkKind::shm});
        if (size > 1) {
            config.rendezvous(meeting);
        }
        group = lycaon::init(config);
        return 0;
    } catch (const lycaon::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

/// So many calls; the nanoseconds that they took.
extern "C" std::uint64_t in_cpp(std::uint32_t calls) {
    std::array<double, 1> value = {1};
    const auto began = std::chrono::steady_clock::now();
    for (std::uint32_t call = 0; call < calls; ++call) {
        group->all_reduce(value, lycaon::Op::max);
    }
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
    return static_cast<std::uint64_t>(took.count());
}
