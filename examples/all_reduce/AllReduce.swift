// Every rank gives a vector; all get the sum, the maximum and the mean.

import Lycaon

@main
struct AllReduce {
    static func main() async throws {
        let group = try await Group.initialize()
        let mine = (0..<4).map { Float($0) + 10 * Float(group.rank) }

        // In place, on this thread: the result replaces the values.
        var total = mine
        try group.allReduce(&total, .sum)

        // Into a new array; the task waits, its thread does not.
        let largest = try await group.allReduce(mine, .max)

        // In the background: the program goes on and asks later.
        let work = group.background.allReduce(mine, .average)
        let mean = try await work.value

        print("rank \(group.rank) of \(group.size): sum \(total), max \(largest), mean \(mean)")
    }
}
