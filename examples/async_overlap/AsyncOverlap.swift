// Reduces the gradients of each layer in the background while the next layer is computed.

import Lycaon

let layers = 6
let weights = 50_000

@main
struct AsyncOverlap {
    /// Stands for the backward pass of one layer.
    static func gradient(rank: Int, layer: Int) -> [Float] {
        (0..<weights).map { Float(($0 + layer) % 97 + rank) }
    }

    static func main() async throws {
        let group = try await Group.initialize()

        // What is started here runs in this order on every rank.
        let pending = (0..<layers).reversed().map { layer in
            (layer, group.background.allReduce(gradient(rank: group.rank, layer: layer), .sum))
        }

        for (layer, work) in pending {
            var expected = [Float](repeating: 0, count: weights)
            for rank in 0..<group.size {
                for (at, value) in gradient(rank: rank, layer: layer).enumerated() {
                    expected[at] += value
                }
            }
            let total = try await work.value
            precondition(total == expected, "layer \(layer)")
        }
        print(
            "rank \(group.rank): \(pending.count) layers of \(weights) gradients reduced in the background")
    }
}
