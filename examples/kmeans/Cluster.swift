import Lycaon

/// Owns the group: everything that concerns the other ranks goes through here, one after the other.
actor Cluster {
    struct Round: Sendable {
        var number: Int
        var spread: Double
        var took: Duration
    }

    private let group: Group
    private let progress: @Sendable (Round) -> Void

    init(group: Group, progress: @escaping @Sendable (Round) -> Void) {
        self.group = group
        self.progress = progress
    }

    /// The part of `count` things that is this rank's.
    private func share(of count: Int) -> Range<Int> {
        count * group.rank / group.size..<count * (group.rank + 1) / group.size
    }

    /// Clusters points that all ranks hold a part of.
    func run(points count: Int, clusters: Int, rounds: Int) async throws(LycaonError) -> Clustering {
        let mine = Points.made(share(of: count), clusters: clusters)
        // Rank 0 says where to start.
        let first = group.rank == 0 ? Points.made(0..<clusters, clusters: clusters).coordinates : []
        let start = try await group.broadcast(
            group.rank == 0 ? first : [Double](repeating: 0, count: 2 * clusters))
        var clustering = Clustering(from: Points(coordinates: start))
        for number in 1...rounds {
            let began = ContinuousClock.now
            let sums = try await group.allReduce(clustering.contribution(of: mine), .sum)
            let better = clustering.advance(sums)
            progress(
                Round(
                    number: number, spread: clustering.spread, took: ContinuousClock.now - began))
            if !better { break }
        }
        return clustering
    }

    /// Whether all ranks have the same.
    func agree(_ clustering: Clustering) async throws(LycaonError) -> Bool {
        let all = try await group.allGather(clustering.centres)
        return stride(from: 0, to: all.count, by: clustering.centres.count).allSatisfy {
            Array(all[$0..<$0 + clustering.centres.count]) == clustering.centres
        }
    }
}
