// Every operation in C++: `operations threads N`, or `operations environment`. With FEW defined, of one
// element type and one half type, which is what compilers with sanitizers have the patience for.
#include <array>
#include <complex>
#include <cstring>
#include <thread>
#include <vector>

#include "check.hpp"

using lycaon::Group;
using lycaon::Op;

namespace {

template <class T>
bool same(const T& a, const T& b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
std::vector<T> data_of(int rank, std::size_t count, std::size_t from = 0) {
    std::vector<T> data(count);
    for (std::size_t at = 0; at < count; ++at) {
        data[at] = value_of<T>(rank, from + at);
    }
    return data;
}

/// The sum of the first ranks, in rank order, in an arithmetic that holds it exactly.
template <class T>
T sum_of(int ranks, std::size_t at) {
    int sum = 0;
    for (int rank = 0; rank < ranks; ++rank) {
        sum += 1 + (rank * 3 + static_cast<int>(at % 7)) % 5;
    }
    if constexpr (std::is_same_v<T, std::byte>) {
        return static_cast<std::byte>(sum);
    } else {
        return static_cast<T>(static_cast<float>(sum));
    }
}

template <class T>
void reductions(const Group& group, std::size_t count) {
    const int rank = group.rank(), size = group.size();
    const auto whole = count * static_cast<std::size_t>(size);
    const auto expect = [&](const std::vector<T>& data, int ranks, std::size_t from) {
        for (std::size_t at = 0; at < data.size(); ++at) {
            CHECK(same(data[at], sum_of<T>(ranks, from + at)));
        }
    };
    for (const bool background : {false, true}) {
        const auto input = data_of<T>(rank, count);
        auto data = input;
        std::vector<T> output(count);
        if (background) {
            group.all_reduce_async(data, Op::sum).wait();
            group.all_reduce_async(input, output, Op::sum).wait();
        } else {
            group.all_reduce(data, Op::sum);
            group.all_reduce(input, output, Op::sum);
        }
        expect(data, size, 0);
        expect(output, size, 0);

        data = input;
        output.assign(count, T{});
        if (background) {
            group.scan_async(data, Op::sum).wait();
            group.scan_async(input, output, Op::sum).wait();
        } else {
            group.scan(data, Op::sum);
            group.scan(input, output, Op::sum);
        }
        expect(data, rank + 1, 0);
        expect(output, rank + 1, 0);

        for (int root = 0; root < size; ++root) {
            data = input;
            output.assign(rank == root ? count : 0, T{});
            if (background) {
                group.reduce_async(data, Op::sum, root).wait();
                group.reduce_async(input, output, Op::sum, root).wait();
            } else {
                group.reduce(data, Op::sum, root);
                group.reduce(input, output, Op::sum, root);
            }
            if (rank == root) {
                expect(data, size, 0);
                expect(output, size, 0);
            } else {
                CHECK(data.empty() || std::memcmp(data.data(), input.data(), count * sizeof(T)) == 0);
            }
        }

        auto all = data_of<T>(rank, whole);
        const auto place = count * static_cast<std::size_t>(rank);
        std::vector<T> block(count);
        if (background) {
            group.reduce_scatter_async(all, block, Op::sum).wait();
            group.reduce_scatter_in_place_async(all, Op::sum).wait();
        } else {
            group.reduce_scatter(all, block, Op::sum);
            const auto own = group.reduce_scatter_in_place(all, Op::sum);
            CHECK(own.data() == all.data() + place && own.size() == count);
        }
        expect(block, size, place);
        expect(std::vector<T>(all.begin() + static_cast<std::ptrdiff_t>(place),
                              all.begin() + static_cast<std::ptrdiff_t>(place + count)),
               size, place);
    }
    CHECK(same(group.all_reduce_value(value_of<T>(rank, 3), Op::sum), sum_of<T>(size, 3)));
}

template <class T>
void exchanges(const Group& group, std::size_t count) {
    const int rank = group.rank(), size = group.size();
    const auto whole = count * static_cast<std::size_t>(size);
    const auto mine = count * static_cast<std::size_t>(rank);
    const auto gathered = [&](const std::vector<T>& data) {
        for (int other = 0; other < size; ++other) {
            for (std::size_t at = 0; at < count; ++at) {
                const T& found = data[count * static_cast<std::size_t>(other) + at];
                CHECK(same(found, value_of<T>(other, at)));
            }
        }
    };
    for (const bool background : {false, true}) {
        const auto input = data_of<T>(rank, count);
        std::vector<T> all(whole);
        auto in_place = std::vector<T>(whole);
        for (std::size_t at = 0; at < count; ++at) {
            in_place[mine + at] = input[at];
        }
        if (background) {
            group.all_gather_async(input, all).wait();
            group.all_gather_in_place_async(in_place).wait();
        } else {
            group.all_gather(input, all);
            group.all_gather_in_place(in_place);
        }
        gathered(all);
        gathered(in_place);

        for (int root = 0; root < size; ++root) {
            auto data = input;
            all.assign(rank == root ? whole : 0, T{});
            const auto source = data_of<T>(root, whole);
            std::vector<T> block(count);
            if (background) {
                group.broadcast_async(data, root).wait();
                group.gather_async(input, all, root).wait();
                group.scatter_async(source, block, root).wait();
            } else {
                group.broadcast(data, root);
                group.gather(input, all, root);
                group.scatter(source, block, root);
            }
            if (rank == root) {
                gathered(all);
            }
            for (std::size_t at = 0; at < count; ++at) {
                CHECK(same(data[at], value_of<T>(root, at)));
                CHECK(same(block[at], value_of<T>(root, mine + at)));
            }
        }

        auto data = data_of<T>(rank, whole);
        std::vector<T> output(whole);
        if (background) {
            group.all_to_all_async(data, output).wait();
            group.all_to_all_in_place_async(data).wait();
        } else {
            group.all_to_all(data, output);
            group.all_to_all_in_place(data);
        }
        for (std::size_t at = 0; at < whole; ++at) {
            const T expected = value_of<T>(static_cast<int>(at / count), mine + at % count);
            CHECK(same(output[at], expected) && same(data[at], expected));
        }
    }
}

/// Rank i has i + 1 elements.
void counts_by_rank(const Group& group) {
    const int rank = group.rank(), size = group.size();
    std::vector<int> counts(static_cast<std::size_t>(size));
    std::size_t whole = 0, before = 0;
    for (int other = 0; other < size; ++other) {
        counts[static_cast<std::size_t>(other)] = other + 1;
        before += other < rank ? static_cast<std::size_t>(other + 1) : 0;
        whole += static_cast<std::size_t>(other + 1);
    }
    const auto own = static_cast<std::size_t>(rank + 1);
    const int root = size / 2;
    const std::vector<int> no_counts;
    for (const bool background : {false, true}) {
        const auto input = data_of<double>(rank, own);
        const auto source = data_of<double>(rank, whole);
        const auto spread = data_of<double>(root, whole);
        std::vector<double> all(whole), at_root(rank == root ? whole : 0), block(own), part(own);
        const auto& known = rank == root ? counts : no_counts;
        // Rank i sends one element to each rank, and i more to itself.
        std::vector<long> exchanged(static_cast<std::size_t>(size), 1);
        exchanged[static_cast<std::size_t>(rank)] = rank + 1;
        const auto sent = data_of<double>(rank, static_cast<std::size_t>(size + rank));
        std::vector<double> received(sent.size());
        if (background) {
            group.all_gather_v_async(input, all, counts).wait();
            group.reduce_scatter_v_async(source, block, counts, Op::sum).wait();
            group.gather_v_async(input, at_root, known, root).wait();
            group.scatter_v_async(spread, known, part, root).wait();
            group.all_to_all_v_async(sent, exchanged, received, exchanged).wait();
        } else {
            group.all_gather_v(input, all, counts);
            group.reduce_scatter_v(source, block, counts, Op::sum);
            group.gather_v(input, at_root, known, root);
            group.scatter_v(spread, known, part, root);
            group.all_to_all_v(sent, exchanged, received, exchanged);
        }
        std::size_t at = 0;
        for (int other = 0; other < size; ++other) {
            for (std::size_t place = 0; place < static_cast<std::size_t>(other + 1); ++place, ++at) {
                CHECK(all[at] == value_of<double>(other, place));
                CHECK(rank != root || at_root[at] == all[at]);
            }
        }
        for (std::size_t place = 0; place < own; ++place) {
            CHECK(block[place] == sum_of<double>(size, before + place));
            CHECK(part[place] == value_of<double>(root, before + place));
        }
        at = 0;
        for (int other = 0; other < size; ++other) {
            // What goes to this rank stands behind what goes to those before it.
            const int first = rank + (other < rank ? other : 0);
            const int count = other == rank ? rank + 1 : 1;
            for (int place = 0; place < count; ++place, ++at) {
                CHECK(received[at] == value_of<double>(other, static_cast<std::size_t>(first + place)));
            }
        }
        CHECK(at == received.size());
    }
    THROWS(lycaon::errors::Counts,
           group.all_gather_v(std::vector<int>(1), std::vector<int>(), std::vector<int>(counts.size() + 1)));
}

template <class T>
void messages(const Group& group, std::size_t count) {
    const int rank = group.rank(), size = group.size();
    if (size == 1) {
        THROWS(lycaon::errors::SelfMessage, group.send(std::vector<T>(count), 0));
        return;
    }
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    const auto input = data_of<T>(rank, count);
    std::vector<T> output(count);
    const auto expect = [&](int from) {
        for (std::size_t at = 0; at < count; ++at) {
            CHECK(same(output[at], value_of<T>(from, at)));
        }
        output.assign(count, T{});
    };
    group.send_recv(input, next, output, previous, 7);
    expect(previous);
    group.send_recv_async(input, previous, output, next).wait();
    expect(next);
    auto receiving = group.recv_async(output, previous, 9);
    auto sending = group.send_async(input, next, 9);
    receiving.wait();
    sending.wait();
    CHECK(receiving.test() && receiving.wait_for(std::chrono::seconds(0)));
    expect(previous);
    if (rank == 0) {
        group.send(input, 1, 3);
    } else if (rank == 1) {
        group.recv(output, 0, 3);
        expect(0);
    }
}

/// All operations of one type.
template <class T>
void with_type(const Group& group) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{1500}}) {
        exchanges<T>(group, count);
        messages<T>(group, count);
        if constexpr (!std::is_same_v<T, bool>) {
            reductions<T>(group, count);
        }
    }
}

/// The headers know of a type only its number; whether that is the right one, these show.
template <class T>
void as_well(const Group& group) {
    const int rank = group.rank(), size = group.size();
    const std::size_t count = 21;
    auto data = data_of<T>(rank, count);
    std::vector<T> all(count * static_cast<std::size_t>(size));
    group.all_gather(data, all);
    group.all_reduce(data, Op::sum);
    for (std::size_t at = 0; at < count; ++at) {
        CHECK(same(data[at], sum_of<T>(size, at)));
        for (int other = 0; other < size; ++other) {
            CHECK(same(all[count * static_cast<std::size_t>(other) + at], value_of<T>(other, at)));
        }
    }
    const auto records = group.flight_recorder();
    CHECK(records.back().dtype == lycaon::dtype_of<T> && records.back().count == count);
}

void everything(Group& group) {
    with_type<float>(group);
    with_type<lycaon::bfloat16>(group);
#if !defined(FEW)
    with_type<std::complex<double>>(group);
    with_type<long>(group);
    as_well<signed char>(group);
    as_well<short>(group);
    as_well<int>(group);
    as_well<long long>(group);
    as_well<unsigned char>(group);
    as_well<std::byte>(group);
    as_well<unsigned short>(group);
    as_well<unsigned>(group);
    as_well<std::uint64_t>(group);
    as_well<lycaon::float16>(group);
    as_well<double>(group);
    as_well<std::complex<float>>(group);
#endif
    counts_by_rank(group);
    group.barrier();
    group.barrier_async().wait();

    // Whatever has data and size is a buffer: arrays, spans, pointers with a count.
    const int size = group.size();
    bool flags[2] = {group.rank() == 0, true};
    group.all_reduce(flags, Op::logical_and);
    CHECK(flags[0] == (size == 1) && flags[1]);
    std::array<int, 3> numbers = {1, 2, group.rank()};
    group.all_reduce(numbers, Op::max);
    CHECK(numbers[2] == size - 1);
    double one = 1;
    group.all_reduce(lycaon::view(&one, 1), Op::sum);
    group.all_reduce_async(lycaon::view(&one, 1), Op::avg).wait();
    CHECK(one == size);
    std::vector<float> none;
    group.all_reduce(none, Op::sum);
    group.all_gather(none, none);

    // Sub-groups.
    const auto half = group.split(group.rank() % 2, -group.rank());
    const auto members = half.members();
    CHECK(members[static_cast<std::size_t>(half.rank())] == group.rank());
    CHECK(half.size() == 1 || members[0] > members[1]);
    const bool last = group.rank() == size - 1;
    const auto rest = group.split(last ? std::nullopt : std::optional<int>(4));
    CHECK(rest.has_value() != last);
    CHECK(!rest || rest->all_reduce_value(1, Op::sum) == size - 1);

    // What has happened.
    const auto progress = group.progress();
    CHECK(progress.started == progress.completed && progress.completed > 50 && !progress.failed);
    const auto links = group.links();
    CHECK(links.size() == static_cast<std::size_t>(size) - 1);
    for (const auto& link : links) {
        CHECK(link.peer != group.rank() && link.kind != lycaon::LinkKind::none);
    }
    const auto records = group.flight_recorder();
    CHECK(!records.empty());
    CHECK(records.back().state == lycaon::State::completed && !records.back().text.empty());
    CHECK(size == 1 || group.algorithm(lycaon::Operation::all_reduce, 8) != lycaon::Algorithm::none);
    group.set_timeout(std::chrono::seconds(5));
    CHECK(group.timeout() == std::chrono::seconds(5));
    CHECK(!group.failure());
    group.barrier();
    group.close();
    CHECK(group.failure()->status() == LYCAON_STATUS_CLOSED);
    THROWS(lycaon::errors::Closed, group.barrier());
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 2 && std::strcmp(arguments[1], "threads") == 0) {
        for (int size = 1; size <= std::atoi(arguments[2]); ++size) {
            auto groups = lycaon::in_process(size);
            std::vector<std::thread> threads;
            for (auto& group : groups) {
                threads.emplace_back([&group] { everything(group); });
            }
            for (auto& thread : threads) {
                thread.join();
            }
        }
        std::puts("operations: ok");
    } else {
        Group group = lycaon::init(lycaon::Config::from_env());
        everything(group);
        std::printf("rank %d of %d: ok\n", group.rank(), group.size());
    }
}
