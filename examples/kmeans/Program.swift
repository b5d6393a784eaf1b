// k-means over all ranks, as an app would do it; see README.md.

import Foundation
import Lycaon

@main
struct Program {
    var points = 60_000
    var clusters = 8
    var rounds = 40
    var quiet = false

    static func main() async {
        do {
            try await Program(CommandLine.arguments.dropFirst()).run()
        } catch let error as LycaonError {
            FileHandle.standardError.write(Data("kmeans: \(error.message)\n".utf8))
            exit(1)
        } catch {
            FileHandle.standardError.write(Data("kmeans: \(error)\n".utf8))
            exit(2)
        }
    }

    init(_ arguments: some Sequence<String>) throws {
        var rest = Array(arguments)[...]
        func number(_ option: String) throws -> Int {
            guard let text = rest.popFirst(), let value = Int(text), (1...10_000_000).contains(value)
            else { throw Usage(text: "\(option) needs a number from 1 to 10000000") }
            return value
        }
        while let option = rest.popFirst() {
            switch option {
            case "--points": points = try number(option)
            case "--clusters": clusters = try number(option)
            case "--rounds": rounds = try number(option)
            case "--quiet": quiet = true
            default:
                throw Usage(
                    text: "what is \(option)? known are --points, --clusters, --rounds, --quiet")
            }
        }
        guard clusters <= points else { throw Usage(text: "more clusters than points") }
    }

    func run() async throws {
        let group = try await Group.initialize()
        let shows = group.rank == 0 && !quiet
        let cluster = Cluster(group: group) { round in
            if shows {
                print("round \(round.number): spread \(round.spread), \(round.took)")
            }
        }
        let clustering = try await cluster.run(points: points, clusters: clusters, rounds: rounds)
        guard try await cluster.agree(clustering) else {
            throw Usage(text: "the ranks have different results; this is a bug")
        }
        if group.rank == 0 {
            let same = alone() == clustering
            print(
                "\(points) points in \(clusters) clusters on \(group.size) ranks, spread "
                    + "\(Int(clustering.spread)): \(same ? "the same" : "NOT the same") as alone")
            if !same { exit(1) }
        }
    }

    /// The whole of it in one process, without the library.
    func alone() -> Clustering {
        let all = Points.made(0..<points, clusters: clusters)
        var clustering = Clustering(from: Points.made(0..<clusters, clusters: clusters))
        for _ in 1...rounds {
            if !clustering.advance(clustering.contribution(of: all)) { break }
        }
        return clustering
    }
}

struct Usage: Error, CustomStringConvertible {
    var text: String
    var description: String { text }
}
