/// Points in the plane, made up from a seed: the same on every rank and in every run.
struct Points: Sendable {
    /// x and y of one point after another; whole numbers.
    var coordinates: [Double]

    var count: Int { coordinates.count / 2 }

    subscript(_ at: Int) -> (x: Double, y: Double) {
        (coordinates[2 * at], coordinates[2 * at + 1])
    }

    /// Some of `count` points that lie around `clusters` places.
    static func made(_ some: Range<Int>, clusters: Int) -> Points {
        var points = Points(coordinates: [])
        points.coordinates.reserveCapacity(2 * some.count)
        for at in some {
            var generator = Generator(state: UInt64(at) &* 0x9e37_79b9_7f4a_7c15 &+ 1)
            let place = Double(at % clusters)
            for axis in 0..<2 {
                // A sum of uniform numbers is round enough.
                let spread = (0..<4).reduce(0.0) { sum, _ in sum + Double(generator.next() % 2001) - 1000 }
                let middle = (place * 7919).truncatingRemainder(dividingBy: 13 + Double(axis) * 4)
                points.coordinates.append(middle * 3000 + spread)
            }
        }
        return points
    }
}

/// SplitMix64.
struct Generator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
