// The temperatures of a plate whose edges and a disc in it are held at fixed temperatures: Laplace's
// equation by Jacobi's method. Each rank has a band of rows, exchanges the rows at its edges with its
// neighbours before each sweep, and all agree on when to stop. Rank 0 then computes the plate alone and
// compares.
//
//     heat [points per side [image.ppm]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lycaon/lycaon.hpp>

namespace {

constexpr double hot = 100, disc = 75, cold = 0;
/// It is done when no temperature changes by more than this in one sweep.
constexpr double tolerance = 1e-4;
/// Sweeps between two looks at how much still changes.
constexpr int between_looks = 50;

/// Some rows of the plate, with a row of the neighbour (or none) above and below.
class Band {
public:
    /// Rows `first` to `last - 1` of a plate of `side` by `side` points.
    Band(int side, int first, int last)
        : side_(static_cast<std::size_t>(side)), rows_(static_cast<std::size_t>(last - first)) {
        now_.assign((rows_ + 2) * side_, cold);
        held_.assign((rows_ + 2) * side_, 0);
        for (std::size_t row = 1; row <= rows_; ++row) {
            const int down = first + static_cast<int>(row) - 1;
            for (std::size_t across = 0; across < side_; ++across) {
                hold(side, down, static_cast<int>(across), row * side_ + across);
            }
        }
        next_ = now_;
    }

    /// One step of Jacobi's method: each point becomes the mean of its four neighbours. Returns the
    /// largest change.
    double sweep() {
        double largest = 0;
        for (std::size_t row = 1; row <= rows_; ++row) {
            for (std::size_t at = row * side_; at < (row + 1) * side_; ++at) {
                if (held_[at] == 0) {
                    const double mean =
                        0.25 * (now_[at - side_] + now_[at - 1] + now_[at + 1] + now_[at + side_]);
                    largest = std::max(largest, std::abs(mean - now_[at]));
                    next_[at] = mean;
                }
            }
        }
        std::swap(now_, next_);
        return largest;
    }

    /// Row 1 is the first one of this band, row 0 that of the neighbour above.
    lycaon::span<double> row(std::size_t row) { return lycaon::view(&now_[row * side_], side_); }

    lycaon::span<const double> own() const {
        return lycaon::span<const double>(&now_[side_], rows_ * side_);
    }

    std::size_t rows() const { return rows_; }

private:
    /// The edge on the left is hot and the others are cold; the disc lies right of the middle.
    void hold(int side, int down, int across, std::size_t at) {
        const double x = across / (side - 1.0) - 0.65, y = down / (side - 1.0) - 0.55;
        if (x * x + y * y < 0.12 * 0.12) {
            now_[at] = disc;
            held_[at] = 1;
        } else if (across == 0 || across == side - 1 || down == 0 || down == side - 1) {
            now_[at] = across == 0 ? hot : cold;
            held_[at] = 1;
        }
    }

    std::size_t side_, rows_;
    std::vector<double> now_, next_;
    std::vector<char> held_;
};

/// Gets the rows next to this band from the neighbours, and gives them those at its edges. The ranks
/// pair up, first (0, 1), (2, 3), …, then (1, 2), (3, 4), …, so that nobody waits for a chain.
void exchange_halos(const lycaon::Group& group, Band& band) {
    for (int phase = 0; phase < 2; ++phase) {
        const bool below = (group.rank() + phase) % 2 == 0;
        const int neighbour = group.rank() + (below ? 1 : -1);
        if (neighbour < 0 || neighbour >= group.size()) {
            continue;
        }
        const std::size_t edge = below ? band.rows() : 1, halo = below ? band.rows() + 1 : 0;
        group.send_recv(band.row(edge), neighbour, band.row(halo), neighbour);
    }
}

/// Sweeps until all ranks agree that nothing changes any more. Returns the number of sweeps.
int solve(const lycaon::Group& group, Band& band, bool talk) {
    int next_line = between_looks;
    for (int sweeps = 1;; ++sweeps) {
        exchange_halos(group, band);
        const double change = band.sweep();
        if (sweeps % between_looks == 0) {
            const double largest = group.all_reduce_value(change, lycaon::Op::max);
            if (talk && (sweeps == next_line || largest < tolerance)) {
                std::printf("  after %6d sweeps the largest change is %.6f\n", sweeps, largest);
                next_line *= 2;
            }
            if (largest < tolerance) {
                return sweeps;
            }
        }
    }
}

/// The plate in the terminal, and into a file for image viewers.
void show(const std::vector<double>& plate, int side, const char* file) {
    const auto n = static_cast<std::size_t>(side);
    const std::string shades = " .:-=+*#%@";
    const auto shade = [&](double value) {
        return shades[std::min(shades.size() - 1, static_cast<std::size_t>(value / hot * 10))];
    };
    for (std::size_t line = 0; line < 20; ++line) {
        std::string text = "  ";
        for (std::size_t column = 0; column < 56; ++column) {
            text += shade(plate[line * (n - 1) / 19 * n + column * (n - 1) / 55]);
        }
        std::puts(text.c_str());
    }
    if (file == nullptr) {
        return;
    }
    std::ofstream out(file, std::ios::binary);
    out << "P6\n" << side << ' ' << side << "\n255\n";
    for (const double value : plate) {
        // From black over red and yellow to white, a dark line at each tenth degree.
        const double heat = 3 * value / hot;
        const double line = std::fmod(value, 10.0) < 0.6 && value > 1 ? 0.6 : 1.0;
        for (const double part : {heat, heat - 1, heat - 2}) {
            out.put(static_cast<char>(std::lround(255 * line * std::clamp(part, 0.0, 1.0))));
        }
    }
    if (!out.flush()) {
        throw std::runtime_error(std::string("cannot write ") + file);
    }
}

double seconds_since(std::chrono::steady_clock::time_point began) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace

int main(int count, char** arguments) try {
    const int side = count > 1 ? std::atoi(arguments[1]) : 128;
    lycaon::Group group = lycaon::init();
    const int rank = group.rank(), size = group.size();
    if (side < 8 || side > 10000 || side < size) {
        std::fprintf(stderr, "points per side: 8 to 10000, and a row for each rank\n");
        return 2;
    }
    const auto first_row = [&](int of) { return static_cast<int>(std::int64_t{side} * of / size); };
    if (rank == 0) {
        std::printf("%d by %d points on %d ranks\n", side, side, size);
    }

    Band band(side, first_row(rank), first_row(rank + 1));
    const auto began = std::chrono::steady_clock::now();
    const int sweeps = solve(group, band, rank == 0);
    const double together = seconds_since(began);

    // Rank 0 gets all bands, which have different heights if they do not come out even.
    std::vector<std::int64_t> counts;
    std::vector<double> plate;
    if (rank == 0) {
        for (int of = 0; of < size; ++of) {
            counts.push_back(std::int64_t{first_row(of + 1) - first_row(of)} * side);
        }
        plate.resize(static_cast<std::size_t>(side) * static_cast<std::size_t>(side));
    }
    group.gather_v(band.own(), plate, counts, 0);
    if (rank != 0) {
        // Rank 0 now works alone, for longer than one usually waits for a peer.
        group.set_timeout(std::chrono::hours(1));
        group.barrier();
        return 0;
    }

    show(plate, side, count > 2 ? arguments[2] : nullptr);

    // The same alone: the same numbers, since each point is computed in the same way.
    const auto began_alone = std::chrono::steady_clock::now();
    Band whole(side, 0, side);
    const int sweeps_alone = solve(lycaon::in_process(1).front(), whole, false);
    const double alone = seconds_since(began_alone);
    const auto serial = whole.own();
    const bool equal = std::equal(plate.begin(), plate.end(), serial.begin(), serial.end());
    std::printf("%d ranks: %d sweeps, %.2f s; alone: %d sweeps, %.2f s\n", size, sweeps, together,
                sweeps_alone, alone);
    if (!equal || sweeps != sweeps_alone) {
        std::fprintf(stderr, "the plate of one rank is another one\n");
        return 1;
    }
    group.barrier();
    std::printf("all %zu temperatures are those of the serial run, bit for bit\n", plate.size());
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
