import Foundation
import Lycaon

/// The forms that do not block: results, order, cancellation, deadlines, and the pool.
struct Waiting {
    let group: Group

    var rank: Int { group.rank }
    var size: Int { group.size }

    /// Every async form, and the order of what is under way at the same time.
    func operations() async throws(LycaonError) {
        let matrix = Matrix(group: group)
        let count = 1000
        let own: [Float] = matrix.own(count)
        let everybody: [Float] = (0..<size).flatMap { matrix.own(count, of: $0) as [Float] }
        let sum = matrix.reduced(Float.self, .sum, 0..<count)
        let counts = (0..<size).map { 10 + $0 }
        let uneven: [Float] = (0..<size).flatMap { matrix.own(counts[$0], of: $0) as [Float] }

        expectEqual(try await group.allReduce(own, .sum), sum, "allReduce")
        expectEqual(try await group.allGather(own), everybody, "allGather")
        expectEqual(
            try await group.allGather(matrix.own(counts[rank]) as [Float], counts: counts), uneven,
            "allGather with counts")
        expectEqual(
            try await group.reduceScatter(matrix.own(count * size) as [Float], .max),
            matrix.reduced(Float.self, .max, rank * count..<(rank + 1) * count), "reduceScatter")
        let start = counts[..<rank].reduce(0, +)
        expectEqual(
            try await group.reduceScatter(
                matrix.own(counts.reduce(0, +)) as [Float], .sum, counts: counts),
            matrix.reduced(Float.self, .sum, start..<start + counts[rank]),
            "reduceScatter with counts")
        expectEqual(
            try await group.broadcast(own, root: size - 1), matrix.own(count, of: size - 1),
            "broadcast")
        let reduced = try await group.reduce(own, .sum)
        expectEqual(reduced ?? sum, sum, "reduce")
        expect((reduced == nil) == (rank != 0), "reduce gives a result at the root")
        let gathered = try await group.gather(own)
        expectEqual(gathered ?? everybody, everybody, "gather")
        expect((gathered == nil) == (rank != 0), "gather gives a result at the root")
        let unevenly = try await group.gather(
            matrix.own(counts[rank]) as [Float], counts: rank == 0 ? counts : nil)
        expectEqual(unevenly ?? uneven, uneven, "gather with counts")
        expectEqual(
            try await group.scatter(rank == 0 ? everybody : nil, count: count), own, "scatter")
        expectEqual(
            try await group.scatter(
                rank == 0 ? uneven : nil, counts: rank == 0 ? counts : nil, count: counts[rank]),
            matrix.own(counts[rank]), "scatter with counts")
        expectEqual(
            try await group.scan(own, .sum),
            matrix.reduced(Float.self, .sum, 0..<count, upTo: rank), "scan")
        let blocks: [Int32] = (0..<size).map { Int32(10 * rank + $0) }
        expectEqual(
            try await group.allToAll(blocks), (0..<size).map { Int32(10 * $0 + rank) }, "allToAll")
        expectEqual(
            try await group.allToAll(
                blocks, sendCounts: [Int](repeating: 1, count: size),
                receiveCounts: [Int](repeating: 1, count: size)),
            (0..<size).map { Int32(10 * $0 + rank) }, "allToAll with counts")
        try await group.barrier()
        if size > 1 {
            let after = (rank + 1) % size
            let before = (rank + size - 1) % size
            expectEqual(
                try await group.sendReceive(own, to: after, receiving: count, from: before, tag: 3),
                matrix.own(count, of: before), "sendReceive")
            if rank == 0 { try await group.send(own, to: 1, tag: 4) }
            if rank == 1 {
                expectEqual(
                    try await group.receive(Float.self, count: count, from: 0, tag: 4),
                    matrix.own(count, of: 0), "receive")
            }
        }
        let half = try await group.split(color: rank % 2, key: -rank)
        expectEqual(
            half.members, (0..<size).reversed().filter { $0 % 2 == rank % 2 }, "split by parity")
        let none = try await group.split(color: rank == 0 ? nil : 1)
        expect((none == nil) == (rank == 0), "a rank without a colour is in no group")
        try await order()
        try await messages()
    }

    /// What is started in one place runs in that order, also with blocking calls in between.
    func order() async throws(LycaonError) {
        let count = 20_000
        let works = (0..<8).map { at in
            group.background.allReduce([Int](repeating: rank + 100 * at, count: count), .sum)
        }
        // Blocking, and after all of them.
        let last = try inOrder([Int](repeating: rank - 7, count: count))
        expectEqual(
            last, [Int](repeating: size * (size - 1) / 2 - 7 * size, count: count),
            "a blocking call after eight in the background")
        for (at, work) in works.enumerated() {
            expect(work.hasEnded, "the order of calls")
            let expected = size * (size - 1) / 2 + 100 * at * size
            expectEqual(
                try await work.value, [Int](repeating: expected, count: count),
                "allReduce \(at) in the background")
        }
    }

    /// Messages of one tag keep their order, whichever form they are sent and received in.
    func messages() async throws(LycaonError) {
        let count = 30_000
        func values(_ number: Int) -> [Int] { (0..<count).map { $0 ^ number } }
        if rank == 0 {
            let works = (0..<4).map { group.background.send(values($0), to: 1, tag: 6) }
            try sending(values(4))
            for work in works { try await work.value }
        } else if rank == 1 {
            let works = (0..<3).map { _ in
                group.background.receive(Int.self, count: count, from: 0, tag: 6)
            }
            expectEqual(try receiving(count), values(3), "a blocking receive after three others")
            expectEqual(try receiving(count), values(4), "one more")
            for (number, work) in works.enumerated() {
                expectEqual(try await work.value, values(number), "receive \(number)")
            }
        }
        try await group.barrier()
    }

    func sending(_ values: [Int]) throws(LycaonError) { try group.send(values, to: 1, tag: 6) }

    func receiving(_ count: Int) throws(LycaonError) -> [Int] {
        try group.receive(count: count, from: 0, tag: 6)
    }

    func inOrder(_ values: [Int]) throws(LycaonError) -> [Int] {
        try group.allReduce(values, .sum)
    }

    /// A task that is cancelled while it waits; the group and the operation go on.
    func cancellation() async throws(LycaonError) {
        let group = group
        if rank == 0 {
            let waiting = Task { () async -> LycaonError in
                await expectError("a cancelled receive") { () async throws(LycaonError) in
                    _ = try await group.receive(Int.self, count: 3, from: 1, tag: 9)
                }
            }
            await pause(.milliseconds(100))
            let began = ContinuousClock.now
            waiting.cancel()
            let error = await waiting.value
            let took = ContinuousClock.now - began
            expect(error == .cancelled(called: true), "\(error)")
            expect(took < .milliseconds(500), "cancelling took \(took)")

            // Cancelled before the call: nothing is called, and the ranks stay in step.
            let early = Task { () async -> LycaonError in
                while !Task.isCancelled { await Task.yield() }
                return await expectError("an allReduce of a cancelled task") {
                    () async throws(LycaonError) in
                    _ = try await group.allReduce([1], .sum)
                }
            }
            early.cancel()
            let answer = await early.value
            expect(answer == .cancelled(called: false), "\(answer)")
        }
        // The group is as it was, also for a collective that nobody waits for any more.
        let waiting = Task { try await group.allReduce([rank], .sum) }
        if rank == 0 { waiting.cancel() }
        _ = await waiting.result
        if rank == 0 {
            // It was cancelled before or after the call. Where it was not called, call it.
            if case .failure(let error as LycaonError) = await waiting.result,
                error == .cancelled(called: false)
            {
                _ = try await group.allReduce([rank], .sum)
            }
        }
        try await group.barrier()
        // The receive that nobody waits for takes the first message of its tag, as it was called.
        if rank == 1 {
            try await group.send([1, 2, 3], to: 0, tag: 9)
            try await group.send([4, 5, 6], to: 0, tag: 9)
        }
        if rank == 0 {
            expectEqual(
                try await group.receive(Int.self, count: 3, from: 1, tag: 9), [4, 5, 6],
                "the message after the one that was taken")
        }
        try await group.barrier()
    }

    /// A task that waits no longer than it wants to.
    func deadlines() async throws(LycaonError) {
        if rank == 0 {
            let began = ContinuousClock.now
            let error = await expectError("a receive with a deadline") {
                () async throws(LycaonError) in
                _ = try await group.receive(
                    Int.self, count: 3, from: 1, tag: 9, timeout: .milliseconds(150))
            }
            let took = ContinuousClock.now - began
            expect(error == .timedOut(after: .milliseconds(150)), "\(error)")
            expect(took >= .milliseconds(150) && took < .seconds(2), "it took \(took)")
        }
        let work = group.background.allReduce([1.5], .sum)
        expectEqual(try await work.value(timeout: .seconds(20)), [1.5 * Double(size)], "in time")
        if rank == 1 { try await group.send([1, 2, 3], to: 0, tag: 9) }
        try await group.barrier()
    }

    /// Many operations wait, more than any pool has threads, and other tasks still run.
    func pool() async throws(LycaonError) {
        let group = group
        let many = 1000
        if rank == 0 {
            let waiting = (0..<many).map { tag in
                Task { try await group.receive(Int.self, count: 1, from: 1, tag: UInt32(tag)) }
            }
            await pause(.milliseconds(300))
            let began = ContinuousClock.now
            let sum = await withTaskGroup(of: Int.self) { tasks in
                for number in 0..<200 { tasks.addTask { await Task.yield(); return number } }
                return await tasks.reduce(0, +)
            }
            let took = ContinuousClock.now - began
            expect(sum == 19_900 && took < .seconds(2), "the tasks of the pool took \(took)")
            try await group.send([1], to: 1, tag: 999)
            for (tag, task) in waiting.enumerated() {
                let got = await task.result
                guard case .success(let values) = got else { fail("receive \(tag): \(got)") }
                expectEqual(values, [tag * 3], "receive \(tag)")
            }
        } else if rank == 1 {
            // Nothing is sent before the tasks of rank 0 have run.
            _ = try await group.receive(Int.self, count: 1, from: 0, tag: 999)
            for tag in (0..<many).reversed() {
                try await group.send([tag * 3], to: 0, tag: UInt32(tag))
            }
        }
        try await group.barrier()
    }
}

func pause(_ duration: Duration) async {
    try? await Task.sleep(for: duration)
}
