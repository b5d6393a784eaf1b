// Reduces the gradients of each layer in the background while the next layer is computed.
#include <cstdio>
#include <vector>

#include <lycaon/lycaon.hpp>

namespace {

constexpr int layers = 6, weights = 50000;

/// Stands for the backward pass of one layer.
std::vector<float> gradient(int rank, int layer) {
    std::vector<float> data(weights);
    for (int at = 0; at < weights; ++at) {
        data[static_cast<std::size_t>(at)] = static_cast<float>((at + layer) % 97 + rank);
    }
    return data;
}

}  // namespace

int main() try {
    const lycaon::Group group = lycaon::init();
    const int rank = group.rank(), size = group.size();

    // The gradients stand before the works, and so outlive them: if anything throws, each work waits
    // for its operation before its buffer goes.
    std::vector<std::vector<float>> gradients(layers);
    std::vector<lycaon::Work> works;
    for (int layer = layers - 1; layer >= 0; --layer) {
        auto& data = gradients[static_cast<std::size_t>(layer)];
        data = gradient(rank, layer);
        works.push_back(group.all_reduce_async(data, lycaon::Op::sum));
    }

    for (const lycaon::Work& work : works) {
        work.wait();
    }
    for (int layer = 0; layer < layers; ++layer) {
        for (int at = 0; at < weights; ++at) {
            const int wanted = size * ((at + layer) % 97) + size * (size - 1) / 2;
            const float got = gradients[static_cast<std::size_t>(layer)][static_cast<std::size_t>(at)];
            if (got != static_cast<float>(wanted)) {
                std::fprintf(stderr, "layer %d, weight %d: %g\n", layer, at, static_cast<double>(got));
                return 1;
            }
        }
    }
    std::printf("rank %d: %d layers of %d gradients reduced in the background\n", rank, layers, weights);
} catch (const lycaon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
