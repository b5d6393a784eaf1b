/// Lloyd's algorithm, cut at the one place where the ranks have to agree.
struct Clustering: Sendable, Equatable {
    /// x and y of one centre after another.
    private(set) var centres: [Double]
    /// The squared distances of all points to their centres, added up.
    private(set) var spread = Double.infinity

    var clusters: Int { centres.count / 2 }

    /// Starts with the first points.
    init(from points: Points) {
        centres = points.coordinates
    }

    /// What these points contribute to the next centres: for each centre the sums of x and y and
    /// the number of points, then the squared distances, in whole numbers.
    func contribution(of points: Points) -> [Double] {
        var sums = [Double](repeating: 0, count: 3 * clusters + 1)
        for at in 0..<points.count {
            let point = points[at]
            var nearest = 0
            var least = Double.infinity
            for centre in 0..<clusters {
                let x = point.x - centres[2 * centre]
                let y = point.y - centres[2 * centre + 1]
                let distance = x * x + y * y
                if distance < least { (nearest, least) = (centre, distance) }
            }
            sums[3 * nearest] += point.x
            sums[3 * nearest + 1] += point.y
            sums[3 * nearest + 2] += 1
            // Rounded, so that the sum does not depend on the order.
            sums[3 * clusters] += least.rounded()
        }
        return sums
    }

    /// The centres that follow from the contributions of all points. Returns whether it got better.
    mutating func advance(_ sums: [Double]) -> Bool {
        for centre in 0..<clusters where sums[3 * centre + 2] > 0 {
            centres[2 * centre] = sums[3 * centre] / sums[3 * centre + 2]
            centres[2 * centre + 1] = sums[3 * centre + 1] / sums[3 * centre + 2]
        }
        let before = spread
        spread = sums[3 * clusters]
        return spread < before
    }
}
