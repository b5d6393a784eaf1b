// What goes wrong is an exception of its kind, with its fields, and nothing leaks.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using lycaon::Config;
using lycaon::Op;
using namespace std::chrono_literals;

namespace {

void arguments() {
    auto groups = lycaon::in_process(2);
    const auto& group = groups[0];
    std::vector<float> three(3), two(2);
    try {
        group.all_reduce(three, two, Op::sum);
        CHECK(false);
    } catch (const lycaon::errors::Length& error) {
        CHECK(error.subject() == "output" && error.expected() == 3 && error.actual() == 2);
        CHECK(std::string(error.what()) == "output holds 2 elements where the call needs 3");
        CHECK(error.kind() == "length" && error.status() == LYCAON_STATUS_LENGTH);
    }
    THROWS(lycaon::errors::Length, group.all_gather(two, three));
    THROWS(lycaon::errors::Length, group.reduce_scatter(three, two, Op::sum));
    THROWS(lycaon::errors::Indivisible, group.all_gather_in_place(three));
    THROWS(lycaon::errors::Indivisible, group.all_to_all(three, three));
    THROWS(lycaon::errors::Indivisible, group.reduce_scatter_in_place(three, Op::sum));
    THROWS(lycaon::errors::NoSuchRank, group.broadcast(two, 2));
    THROWS(lycaon::errors::NoSuchRank, group.broadcast(two, -1));
    THROWS(lycaon::errors::SelfMessage, group.send(two, 0));
    THROWS(lycaon::errors::Unsupported, group.all_reduce(two, Op::bit_and));
    THROWS(lycaon::errors::UnknownOp, group.all_reduce(two, static_cast<Op>(99)));
    THROWS(lycaon::errors::Overlap,
           group.all_reduce(lycaon::view(three.data(), 2), lycaon::view(three.data() + 1, 2), Op::sum));
    THROWS(lycaon::errors::OutOfRange, group.split(-1));
    THROWS(lycaon::ArgumentError, group.send(two, 7));
    THROWS(lycaon::Error, group.send(two, 7));
    THROWS(lycaon::errors::OutOfRange, (void)lycaon::in_process(-3));
    // None of this has hurt the group.
    CHECK(!group.failure());
}

void configurations() {
    Config config;
    config.rank(3).size(2).rendezvous("127.0.0.1:4000");
    try {
        config.check();
        CHECK(false);
    } catch (const lycaon::errors::Conflict& error) {
        CHECK(error.first() == "rank=3" && error.second() == "size=2");
    }
    THROWS(lycaon::ConfigError, (void)lycaon::init(config));
    THROWS(lycaon::errors::Value, config.rendezvous("nowhere"));
    THROWS(lycaon::errors::OutOfRange, config.rank(-1));
    THROWS(lycaon::errors::UnknownNumber, config.links({lycaon::LinkKind::other}));
    config.rank(0).links({lycaon::LinkKind::tcp}).algorithm(lycaon::Operation::none,
                                                            lycaon::Algorithm::ring);
    config.timeout(-1s);
    THROWS(lycaon::errors::Value, config.check());
    config.timeout(2s).start_timeout(1500ms).job("test").host_id("here").rails(2).rank_order(true);
    config.token("secret").spin(10us).staging(1 << 20).recorder(16).liveness(1s).interfaces("lo");
    config.check();

    Config moved = std::move(config);
    moved.check();

    // What an all-gather throws ends the start with its words.
    Config failing;
    failing.rank(1).size(2).all_gather([](int rank, int size, lycaon::span<const std::byte> mine) {
        CHECK(rank == 1 && size == 2 && !mine.empty());
        if (size == 2) {
            throw std::runtime_error("no way to the others");
        }
        return std::vector<std::vector<std::byte>>();
    });
    try {
        (void)lycaon::init(failing);
        CHECK(false);
    } catch (const lycaon::errors::SideChannel& error) {
        CHECK(error.reason() == "no way to the others" && error.rank() == 1);
    }
}

/// Two threads that exchange bytes by hand form a group of processes' kind.
void side_channel() {
    std::vector<std::vector<std::byte>> board(2);
    std::atomic<int> written{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
        threads.emplace_back([rank, &board, &written] {
            int round = 0;
            Config config;
            config.rank(rank).size(2).token("secret").all_gather(
                [&](int own, int size, lycaon::span<const std::byte> mine) {
                    board[static_cast<std::size_t>(own)].assign(mine.begin(), mine.end());
                    ++round;
                    ++written;
                    while (written < size * round) {
                        std::this_thread::sleep_for(1ms);
                    }
                    auto all = board;
                    // Nobody writes again before everybody has read.
                    ++written;
                    ++round;
                    while (written < size * round) {
                        std::this_thread::sleep_for(1ms);
                    }
                    return all;
                });
            auto group = lycaon::init(config);
            CHECK(group.all_reduce_value(rank + 1, Op::sum) == 3);
            group.barrier();
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

void mismatch() {
    auto groups = lycaon::in_process(2);
    std::vector<std::thread> threads;
    for (auto& group : groups) {
        threads.emplace_back([&group] {
            try {
                std::vector<long> data(static_cast<std::size_t>(group.rank() + 1));
                group.all_reduce(data, Op::sum);
                CHECK(false);
            } catch (const lycaon::errors::Mismatch& error) {
                CHECK(error.first() != error.second());
                CHECK(error.first_call().find("all_reduce #0 (i64") == 0);
                CHECK(error.operation() == lycaon::Operation::all_reduce);
                CHECK(error.sequence() == 0 && error.rank() == group.rank());
                CHECK(error.cause().find("called different things") != std::string::npos);
            }
            THROWS(lycaon::errors::Mismatch, group.barrier());
            CHECK(group.failure()->status() == LYCAON_STATUS_MISMATCH);
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

void deadlines_and_interruptions() {
    auto groups = lycaon::in_process(2);
    int data = 5;
    auto work = groups[0].recv_async(lycaon::view(&data, 1), 1);
    CHECK(!work.wait_for(1ms) && !work.test());
    {
        int asked = 0;
        const lycaon::Interruption outer([&] { return ++asked > 2; });
        THROWS(lycaon::errors::Interrupted, work.wait());
        CHECK(asked > 2);
        {
            const lycaon::Interruption inner([]() -> bool { throw 1; });
            THROWS(lycaon::errors::Interrupted, work.wait());
        }
        asked = 0;
        THROWS(lycaon::errors::Interrupted, work.wait());
    }
    // The operation has gone on, and nobody is asked any more.
    CHECK(!groups[0].failure());
    const int sent = 9;
    groups[1].send(lycaon::view(&sent, 1), 0);
    work.wait();
    CHECK(data == 9);

    groups[0].set_timeout(50ms);
    try {
        groups[0].recv(lycaon::view(&data, 1), 1, 77);
        CHECK(false);
    } catch (const lycaon::errors::Deadline& error) {
        CHECK(error.late_rank() == 0 && error.peer() == 1 && error.late_peer() == 1);
        CHECK(error.waited() >= 50ms && error.elapsed() >= 50ms);
        CHECK(error.link() == lycaon::LinkKind::memory);
        const lycaon::Error copy = error;
        CHECK(copy.fields().size() == error.fields().size());
    }
}

/// A buffer that goes with an exception is not gone before the operation has ended.
void unwinding() {
    auto groups = lycaon::in_process(2);
    groups[0].set_timeout(100ms);
    const auto before = std::chrono::steady_clock::now();
    try {
        std::vector<double> data(1000);
        const auto work = groups[0].recv_async(data, 1);
        throw std::runtime_error("on the way");
    } catch (const std::runtime_error&) {
    }
    CHECK(std::chrono::steady_clock::now() - before >= 100ms);
    THROWS(lycaon::errors::Deadline, groups[0].barrier());
}

}  // namespace

int main() {
    arguments();
    configurations();
    side_channel();
    mismatch();
    deadlines_and_interruptions();
    unwinding();
    CHECK(!lycaon::version().empty());
    std::puts("errors: ok");
}
