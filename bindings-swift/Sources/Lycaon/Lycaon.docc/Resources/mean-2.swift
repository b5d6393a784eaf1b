import Lycaon

@main
struct Mean {
    static func main() async throws {
        let group = try await Group.initialize()
        let mine = [Double(group.rank), 1]
        let mean = try await group.allReduce(mine, .average)
        print("rank \(group.rank) of \(group.size): \(mean)")
    }
}
