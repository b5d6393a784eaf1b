// Messages between two ranks: one that goes round all ranks, and a shift where everybody sends and
// receives at the same time.

import Lycaon

// Messages with different tags do not wait for one another.
let baton: UInt32 = 1
let shift: UInt32 = 2

@main
struct SendReceive {
    static func main() async throws {
        let group = try await Group.initialize()
        guard group.size > 1 else {
            print("one rank has nobody to write to")
            return
        }
        let after = (group.rank + 1) % group.size
        let before = (group.rank + group.size - 1) % group.size

        // Each rank writes its number into the baton and hands it on.
        var numbers = [Int](repeating: -1, count: group.size)
        if group.rank == 0 {
            numbers[0] = 0
            try await group.send(numbers, to: after, tag: baton)
            try group.receive(into: &numbers, from: before, tag: baton)
            print("the baton came back as \(numbers)")
        } else {
            try group.receive(into: &numbers, from: before, tag: baton)
            numbers[group.rank] = group.rank
            try await group.send(numbers, to: after, tag: baton)
        }

        // All at once: send and receive together, or a ring of ranks would wait for itself.
        let got = try exchange(group, after, before)
        let messages = group.flightRecorder.filter { $0.call.operation == .sendReceive }.count
        print("rank \(group.rank) got \(got) from rank \(before) in \(messages) exchange")
    }

    /// Not async, so that the blocking form is meant.
    static func exchange(_ group: Group, _ after: Int, _ before: Int) throws -> Double {
        let mine = [Double](repeating: Double(group.rank) + 0.5, count: 100_000)
        let got = try group.sendReceive(
            mine, to: after, receiving: mine.count, from: before, tag: shift)
        precondition(got.allSatisfy { $0 == Double(before) + 0.5 })
        return got[0]
    }
}
