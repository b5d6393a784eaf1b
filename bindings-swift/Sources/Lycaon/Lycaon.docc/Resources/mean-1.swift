import Lycaon

@main
struct Mean {
    static func main() async throws {
        let group = try await Group.initialize()
        print("rank \(group.rank) of \(group.size)")
    }
}
