// The mean and the deviation of numbers that lie on several ranks, through the cxx bridge.
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "lycaon-cxx/src/lib.rs.h"
#include "rust/cxx.h"

namespace {

rust::Slice<double> slice(std::vector<double>& data) { return {data.data(), data.size()}; }

}  // namespace

int main() {
    try {
        const rust::Box<lycaon_cxx::Group> group = lycaon_cxx::init();
        const auto rank = static_cast<double>(group->rank());

        // Each rank has numbers of its own; here such that the answer is known.
        std::vector<double> numbers(1000);
        for (std::size_t at = 0; at < numbers.size(); ++at) {
            numbers[at] = rank + static_cast<double>(at % 10);
        }
        std::vector<double> sums = {0, 0, static_cast<double>(numbers.size())};
        for (const double number : numbers) {
            sums[0] += number;
            sums[1] += number * number;
        }
        group->all_reduce_f64(slice(sums), lycaon_cxx::Op::Sum);
        const double mean = sums[0] / sums[2];
        const double deviation = std::sqrt(sums[1] / sums[2] - mean * mean);

        // The same in the background: the data goes to Rust and comes back.
        rust::Vec<float> data;
        data.push_back(static_cast<float>(rank + 1));
        auto work = group->all_reduce_f32_async(std::move(data), lycaon_cxx::Op::Sum);
        const rust::Vec<float> total = lycaon_cxx::wait_f32(std::move(work));

        // What goes wrong is a rust::Error that begins with the name of its kind.
        std::string refused;
        try {
            group->broadcast_f64(slice(sums), group->size());
        } catch (const rust::Error& error) {
            refused = error.what();
        }
        const auto size = static_cast<double>(group->size());
        const bool right = mean == 4.5 + (size - 1) / 2 && total[0] == size * (size + 1) / 2 &&
                           refused.rfind("no_such_rank: root", 0) == 0;
        if (group->rank() == 0) {
            std::printf("%zu ranks: mean %.3f, deviation %.3f, sum %.0f\n", group->size(),
                        mean, deviation, static_cast<double>(total[0]));
            std::printf("refused: %s\n", refused.c_str());
        }
        group->barrier();
        return right ? 0 : 1;
    } catch (const rust::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
