import Lycaon

@main
struct Mean {
    static func main() async throws {
        do throws(LycaonError) {
            let group = try await Group.initialize()
            let mine = [Double(group.rank), 1]
            let mean = try await group.allReduce(mine, .average)
            print("rank \(group.rank) of \(group.size): \(mean)")
        } catch .operation(let failure) {
            print("the ranks did not get through: \(failure.message)")
            throw LycaonError.operation(failure)
        }
    }
}
