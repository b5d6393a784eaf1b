// jaccl::Config by hand, and groups whose ranks are threads that meet by the program's own
// all-gather.
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <jaccl/jaccl.h>
#include <jaccl/types.h>

namespace {

using Devices = std::vector<std::vector<std::vector<std::string>>>;

void expect(bool holds, const std::string& what) {
    if (!holds) {
        std::cerr << what << std::endl;
        std::exit(1);
    }
}

// An all-gather among threads.
class Meeting {
public:
    explicit Meeting(int size) : size_(static_cast<std::size_t>(size)) {}

    jaccl::AllGatherFn of(int rank) {
        return [this, rank](const char* src, char* dst, std::size_t n_bytes) {
            std::unique_lock<std::mutex> lock(mutex_);
            // The round before has been read by all.
            changed_.wait(lock, [&] { return !leaving_; });
            given_.resize(size_ * n_bytes);
            if (n_bytes > 0) {
                std::memcpy(given_.data() + static_cast<std::size_t>(rank) * n_bytes, src, n_bytes);
            }
            if (++inside_ == size_) {
                leaving_ = true;
                changed_.notify_all();
            }
            changed_.wait(lock, [&] { return leaving_; });
            if (n_bytes > 0) {
                std::memcpy(dst, given_.data(), given_.size());
            }
            if (--inside_ == 0) {
                leaving_ = false;
                changed_.notify_all();
            }
        };
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<char> given_;
    std::size_t size_;
    std::size_t inside_ = 0;
    bool leaving_ = false;
};

Devices mesh(std::size_t size) {
    Devices devices(size, std::vector<std::vector<std::string>>(size));
    for (std::size_t from = 0; from < size; ++from) {
        for (std::size_t to = 0; to < size; ++to) {
            if (from != to) {
                devices[from][to] = {"rdma_en" + std::to_string(to)};
            }
        }
    }
    return devices;
}

Devices ring(std::size_t size, std::size_t cables) {
    Devices devices(size, std::vector<std::vector<std::string>>(size));
    for (std::size_t from = 0; from < size; ++from) {
        for (const std::size_t to : {(from + 1) % size, (from + size - 1) % size}) {
            devices[from][to] = std::vector<std::string>(cables, "rdma_en2");
        }
    }
    return devices;
}

void checks() {
    using jaccl::Config;
    expect(!Config().is_valid() && !Config().is_valid_mesh() && !Config().is_valid_ring(),
           "nothing is no configuration");
    Config config = Config().set_rank("2").set_coordinator("127.0.0.1:12345").set_devices(mesh(4));
    expect(config.is_valid() && config.is_valid_mesh() && config.is_valid_ring(), "a mesh");
    expect(config.get_rank() == 2 && config.get_size() == 4 && !config.get_prefer_ring() &&
               config.get_coordinator() == "127.0.0.1:12345" && !config.get_strict_rdma(),
           "the values come back");
    expect(config.prefer_ring().get_prefer_ring() && !config.prefer_ring(false).get_prefer_ring(),
           "prefer_ring");
    config.set_rank(nullptr).set_coordinator(nullptr).set_devices_from_file(nullptr);
    expect(config.is_valid() && config.get_rank() == 2, "nullptr changes nothing");
    expect(!config.set_rank(4).is_valid() && !config.set_rank(-1).is_valid(), "a rank beyond");
    expect(config.problem().find("rank -1") == 0, config.problem());

    config.set_rank(0).set_devices(ring(4, 2));
    expect(config.is_valid() && !config.is_valid_mesh() && config.is_valid_ring(), "a ring");
    Devices broken = ring(4, 2);
    broken[1][2].pop_back();
    expect(!config.set_devices(broken).is_valid(), "a ring with a cable missing");
    expect(config.problem().find("no mesh (rank 0 has no device towards rank 2) and no ring (rank "
                                 "1 has 1 devices towards rank 2") != std::string::npos,
           config.problem());
    broken[1][2].clear();
    expect(!config.set_devices(broken).is_valid_ring(), "a ring that is open");
    Devices loop = mesh(3);
    loop[1][1] = {"rdma_en9"};
    expect(!config.set_devices(loop).is_valid_mesh(), "a device towards itself");
    expect(!config.set_devices({{{}}}).is_valid(), "one rank");
    expect(!Config().set_devices(mesh(2)).is_valid(), "nowhere to meet");
    expect(Config().set_devices(mesh(2)).set_all_gather([](auto...) {}).is_valid(), "it is given");

    bool thrown = false;
    try {
        config.set_devices({{{}, {"a"}}, {{"b"}}});
    } catch (const std::invalid_argument& error) {
        thrown = std::string(error.what()).find("row 1 of the devices has 1 cells") !=
                 std::string::npos;
    }
    expect(thrown, "a table that is not square");
    for (const char* rank : {"", "x", "1x", "-1", " 1", "1234567890"}) {
        thrown = false;
        try {
            config.set_rank(rank);
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        expect(thrown, std::string("a rank that is no number: ") + rank);
    }
}

void from_file(const std::string& path) {
    std::ofstream(path) << R"([[null, "a", ["b", "c"]], ["d", null, ["e"]], [["f", "g"], "h", []]])";
    const auto config =
        jaccl::Config().set_devices_from_file(path.c_str()).set_coordinator("127.0.0.1:1");
    expect(config.get_size() == 3 && config.is_valid_mesh() && !config.is_valid_ring(), "a file");
    std::ofstream(path) << "[[null]";
    bool thrown = false;
    try {
        jaccl::Config().set_devices_from_file(path.c_str());
    } catch (const std::runtime_error& error) {
        thrown = std::string(error.what()).find(path) != std::string::npos;
    }
    expect(thrown, "the error names the file");
}

void half_types() {
    static_assert(std::is_convertible_v<float, jaccl::float16_t> &&
                  std::is_convertible_v<jaccl::bfloat16_t, float>);
    jaccl::float16_t half(1.5f);
    half += jaccl::float16_t(0.25f);
    const auto sum = half + half;
    static_assert(std::is_same_v<decltype(sum), const jaccl::float16_t>);
    expect(static_cast<float>(sum) == 3.5f && half < sum && !(half > sum), "float16_t");
    const jaccl::bfloat16_t brain = 257.0f;
    expect(static_cast<float>(brain) == 256.0f && brain.bits_ == 0x4380, "bfloat16_t");
    int calls = 0;
    jaccl::dispatch_all_types(99, [&](auto) { ++calls; });
    jaccl::dispatch_all_types(jaccl::Complex64, [&](auto identity) {
        using T = JACCL_GET_TYPE(identity);
        calls += std::is_same_v<T, jaccl::complex64_t> ? 1 : 10;
    });
    expect(calls == 1, "dispatch_all_types");
}

// A group of threads, and what each rank does in it.
template <class Start>
void group(int size, Start start) {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
        ranks.emplace_back([&, rank] {
            const std::shared_ptr<jaccl::Group> joined = start(rank);
            expect(joined != nullptr && joined->rank() == rank && joined->size() == size,
                   "a group");
            std::vector<std::int64_t> data(1000, rank + 1);
            joined->all_sum(data.data(), data.data(), data.size() * 8, jaccl::Int64);
            expect(data.front() == size * (size + 1) / 2 && data.back() == data.front(), "a sum");
            joined->barrier();
        });
    }
    for (std::thread& rank : ranks) {
        rank.join();
    }
}

void own_all_gather() {
    for (const int size : {2, 4}) {
        Meeting meeting(size);
        const auto devices = mesh(static_cast<std::size_t>(size));
        group(size, [&](int rank) {
            return jaccl::init(jaccl::Config().set_rank(rank).set_devices(devices).set_all_gather(
                                   meeting.of(rank)),
                               true);
        });
        group(size, [&](int rank) {
            jaccl::Config config;
            config.set_rank(rank).set_devices(devices).prefer_ring().set_all_gather_factory(
                [&, rank, size](int given_rank, int given_size) {
                    expect(given_rank == rank && given_size == size, "what the factory is given");
                    return meeting.of(rank);
                });
            return jaccl::init(config);
        });
    }
}

// What the function throws is in the error; without strictness there is no group.
void failing_all_gather() {
    auto config = jaccl::Config().set_devices(mesh(2)).set_all_gather(
        [](const char*, char*, std::size_t) { throw std::runtime_error("the pigeon is late"); });
    bool thrown = false;
    try {
        (void)jaccl::init(config, true);
    } catch (const lycaon::errors::SideChannel& error) {
        thrown = std::string(error.what()).find("the pigeon is late") != std::string::npos;
    }
    expect(thrown, "an all-gather that throws");
    expect(jaccl::init(config) == nullptr, "not strict");
    config.set_all_gather_factory([](int, int) { return jaccl::AllGatherFn(); });
    expect(jaccl::init(config) == nullptr, "a factory that makes nothing");
}

}  // namespace

int main(int, char** argv) {
    checks();
    from_file(argv[1]);
    half_types();
    own_all_gather();
    failing_all_gather();
    std::cout << "config: ok" << std::endl;
    return 0;
}
