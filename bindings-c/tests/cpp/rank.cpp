// One rank of a group of processes in which something goes wrong: `rank killed`, `rank late`,
// `rank mismatch`, `rank wrong`, `rank leaves`.
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"

using lycaon::Group;
using lycaon::Op;
using namespace std::chrono_literals;

namespace {

/// The test kills one of the ranks once it has said that it is there.
void killed(const Group& group) {
    std::vector<float> data = {1, 2, static_cast<float>(group.rank())};
    try {
        for (int round = 0;; ++round) {
            group.all_reduce(data, Op::max);
            if (round == 0) {
                say_ready();
            }
        }
    } catch (const lycaon::errors::RankDied& error) {
        CHECK(error.rank() == group.rank() && !error.how().empty());
        // No operation failed if the rank heard of it between two of them.
        const bool between = error.operation() == lycaon::Operation::none;
        CHECK(between || error.operation() == lycaon::Operation::all_reduce);
        CHECK(between != error.sequence().has_value());
        CHECK(error.cause().find("rank " + std::to_string(error.dead_rank())) != std::string::npos);
        std::printf("rank %d is dead\n", error.dead_rank());
    }
    THROWS(lycaon::errors::RankDied, group.barrier());
    THROWS(lycaon::OperationError, (void)group.split(0));
}

/// Rank 0 waits for a message of the last rank, which is busy elsewhere; the others hear why the
/// group has ended.
void late(Group& group) {
    if (group.rank() == 0) {
        group.set_timeout(200ms);
    } else if (group.rank() == group.size() - 1) {
        const auto began = std::chrono::steady_clock::now();
        while (!group.failure()) {
            CHECK(std::chrono::steady_clock::now() - began < 60s);
            std::this_thread::sleep_for(5ms);
        }
    }
    int data = 7;
    try {
        if (group.rank() == 0) {
            group.recv(lycaon::view(&data, 1), group.size() - 1, 5);
        } else {
            group.barrier();
        }
        CHECK(false);
    } catch (const lycaon::errors::Deadline& error) {
        CHECK(error.late_rank() == 0 && error.late_peer() == group.size() - 1);
        CHECK(error.waited() >= 200ms && error.late_call().find("recv") == 0);
        CHECK(error.rank() == group.rank());
        CHECK(group.rank() != 0 || (error.peer() == group.size() - 1 && error.elapsed() >= 200ms));
    }
    CHECK(data == 7);
}

/// The last rank calls something else.
void mismatch(const Group& group) {
    std::vector<long> data(4), all(4 * static_cast<std::size_t>(group.size()));
    try {
        if (group.rank() == group.size() - 1) {
            group.all_gather(data, all);
        } else {
            group.all_reduce(data, Op::sum);
        }
        CHECK(false);
    } catch (const lycaon::errors::Mismatch& error) {
        const std::string both = error.first_call() + error.second_call();
        CHECK(both.find("all_reduce") != std::string::npos);
        CHECK(both.find("all_gather") != std::string::npos);
        CHECK(error.first() == group.size() - 1 || error.second() == group.size() - 1);
    }
}

/// Wrong calls on one rank change nothing for the others.
void wrong(const Group& group) {
    std::vector<double> three(3), two(2);
    if (group.rank() == 0) {
        THROWS(lycaon::errors::Length, group.all_reduce(three, two, Op::sum));
        THROWS(lycaon::errors::Length, group.all_gather(two, three));
        THROWS(lycaon::errors::NoSuchRank, group.send(two, group.size()));
        THROWS(lycaon::errors::NoSuchRank, group.recv(two, -1));
        THROWS(lycaon::errors::SelfMessage, group.recv(two, 0));
        THROWS(lycaon::errors::Unsupported, group.all_reduce(two, Op::bit_xor));
        THROWS(lycaon::errors::UnknownOp, group.all_reduce(two, static_cast<Op>(12345)));
        THROWS(lycaon::errors::UnknownOp, group.all_reduce(two, Op::none));
        THROWS(lycaon::errors::UnknownNumber,
               (void)group.algorithm(static_cast<lycaon::Operation>(99), 8));
    }
    CHECK(group.all_reduce_value(group.rank() + 1, Op::sum) == group.size() * (group.size() + 1) / 2);
}

/// Rank 0 closes its group in order while the others still need it.
void leaves(Group& group) {
    group.barrier();
    if (group.rank() == 0) {
        group.close();
        THROWS(lycaon::errors::Closed, group.barrier());
        return;
    }
    try {
        group.barrier();
        CHECK(false);
    } catch (const lycaon::errors::RankLeft& error) {
        CHECK(error.left_rank() == 0);
    }
}

}  // namespace

int main(int count, char** arguments) {
    const std::string what = count > 1 ? arguments[1] : "";
    Group group = lycaon::init();
    if (what == "killed") {
        killed(group);
    } else if (what == "late") {
        late(group);
    } else if (what == "mismatch") {
        mismatch(group);
    } else if (what == "wrong") {
        wrong(group);
    } else if (what == "leaves") {
        leaves(group);
    } else {
        CHECK(false);
    }
    std::printf("%s: ok\n", what.c_str());
}
