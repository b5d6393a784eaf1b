import Foundation
import Lycaon

/// What the survivors see.
struct Faults {
    let group: Group

    var rank: Int { group.rank }
    var last: Int { group.size - 1 }

    /// The cause of a failed operation.
    func cause(_ error: LycaonError) -> Cause {
        guard case .operation(let failure) = error else { fail("\(error) is of another family") }
        expect(failure.rank == rank, "\(failure)")
        expect(failure.message.hasPrefix("rank \(rank): "), failure.message)
        return failure.cause
    }

    /// The last rank dies while the others wait for it.
    func death() async throws(LycaonError) {
        try await group.barrier()
        if rank == last {
            await pause(.milliseconds(200))
            kill(getpid(), SIGKILL)
        }
        let began = ContinuousClock.now
        let error = await expectError("an allReduce with a dead rank") { () async throws(LycaonError) in
            _ = try await group.allReduce([Float](repeating: 1, count: 100_000), .sum)
        }
        let took = ContinuousClock.now - began
        guard case .rankDied(last, _) = cause(error) else { fail("\(error)") }
        expect(took < .seconds(4), "the death was noticed after \(took)")
        try poisoned(error)
    }

    /// Nobody calls but rank 0.
    func deadline() async throws(LycaonError) {
        try await group.barrier()
        if rank == 0 {
            try group.setTimeout(.milliseconds(300))
            expect(group.timeout == .milliseconds(300), "\(group.timeout)")
            let error = expectError("a barrier that nobody else calls") { () throws(LycaonError) in
                try blocking()
            }
            guard case .deadline(0, let call, _, let waited) = cause(error) else { fail("\(error)") }
            expect(call.operation == .barrier, "\(call)")
            expect(waited >= .milliseconds(300), "\(waited)")
            expect(error.message.contains("LYCAON_TIMEOUT"), error.message)
            try poisoned(error)
        } else {
            // The others learn of it.
            let error = await expectError("a barrier after a deadline") { () async throws(LycaonError) in
                await pause(.milliseconds(900))
                try await group.barrier()
            }
            guard case .deadline(0, _, _, _) = cause(error) else { fail("\(error)") }
        }
    }

    func blocking() throws(LycaonError) { try group.barrier() }

    /// Two ranks call different things.
    func mismatch() async throws(LycaonError) {
        let error = await expectError("different calls") { () async throws(LycaonError) in
            if rank == 0 {
                _ = try await group.allReduce([Float](repeating: 1, count: 1024), .sum)
            } else {
                _ = try await group.allGather([Int64](repeating: 1, count: 8))
            }
        }
        guard case .mismatch(let first, let firstCall, let second, let secondCall) = cause(error)
        else { fail("\(error)") }
        let calls = [first: firstCall, second: secondCall]
        guard let reduction = calls[0], let gathering = calls[first == 0 ? second : first] else {
            fail("\(error)")
        }
        expect(
            reduction.operation == .allReduce && reduction.dataType == .float32
                && reduction.op == .sum && reduction.count == 1024, "\(reduction)")
        expect(
            gathering.operation == .allGather && gathering.dataType == .int64 && gathering.op == nil,
            "\(gathering)")
        try poisoned(error)
    }

    /// A rank leaves while the others need it.
    func departure() async throws(LycaonError) {
        try await group.barrier()
        if rank == last {
            group.close()
            group.close()
            let error = expectError("a barrier of a closed group") { () throws(LycaonError) in
                try blocking()
            }
            guard case .closed = cause(error) else { fail("\(error)") }
        } else {
            let error = await expectError("a barrier without the last rank") {
                () async throws(LycaonError) in
                try await group.barrier()
            }
            guard case .rankLeft(last) = cause(error) else { fail("\(error)") }
        }
    }

    /// Closing ends what is under way.
    func closing() async throws(LycaonError) {
        try await group.barrier()
        if rank == 0 {
            let work = group.background.receive(Int.self, count: 1, from: 1, tag: 5)
            await pause(.milliseconds(100))
            let began = ContinuousClock.now
            group.close()
            let error = await expectError("a receive of a closed group") {
                () async throws(LycaonError) in
                _ = try await work.value
            }
            guard case .closed = cause(error) else { fail("\(error)") }
            expect(ContinuousClock.now - began < .seconds(2), "closing took too long")
        } else {
            await pause(.milliseconds(400))
        }
    }

    /// Every later call throws the first cause at once.
    func poisoned(_ error: LycaonError) throws(LycaonError) {
        let began = ContinuousClock.now
        let later = expectError("a call after a failure") { () throws(LycaonError) in
            try blocking()
        }
        expect(cause(later) == cause(error), "\(later)")
        guard case .operation(let failure) = later else { fail("\(later)") }
        expect(failure.call == nil, "\(later)")
        expect(ContinuousClock.now - began < .milliseconds(500), "a poisoned group answers at once")
    }
}
