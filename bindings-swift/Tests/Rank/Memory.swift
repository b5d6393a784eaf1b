import Foundation
import Lycaon

/// Where the data are, and how much memory it takes.
struct Memory {
    let group: Group

    var rank: Int { group.rank }
    var size: Int { group.size }

    /// Resident memory of this process, in bytes: anonymous memory alone, or all of it.
    static func resident(anonymous: Bool = false) -> Int {
        #if os(Linux)
        let name = anonymous ? "RssAnon:" : "VmRSS:"
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        for line in status.split(separator: "\n") where line.hasPrefix(name) {
            if let kilobytes = line.split(separator: " ", omittingEmptySubsequences: true)
                .compactMap({ Int($0) }).first
            {
                return kilobytes * 1024
            }
        }
        #endif
        fail("this system does not say how much memory is resident")
    }

    /// 64 MiB are reduced where they are: same address, and no memory of that order beside.
    func noCopy() async throws(LycaonError) {
        let count = 16 << 20
        var values = [Float](repeating: Float(rank + 1), count: count)
        let sum = Float(size * (size + 1) / 2)
        let address = values.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        let before = Self.resident(anonymous: true)
        let watch = Watch()
        for _ in 0..<3 {
            try group.allReduce(&values, .sum)
            expect(values.allSatisfy { $0 == sum }, "the sum of 64 MiB")
            for at in values.indices { values[at] = Float(rank + 1) }
        }
        let grown = watch.stop() - before
        let now = values.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        expect(now == address, "the array was replaced")
        expect(grown < 24 << 20, "64 MiB in place took \(grown >> 20) MiB of memory beside")

        // A buffer of the caller's.
        let buffer = UnsafeMutableBufferPointer<Float>.allocate(capacity: count)
        defer { buffer.deallocate() }
        buffer.initialize(repeating: Float(rank + 1))
        let again = Self.resident(anonymous: true)
        let second = Watch()
        try group.allReduce(buffer, .sum)
        let more = second.stop() - again
        expect(buffer.allSatisfy { $0 == sum }, "the sum in a buffer")
        expect(more < 24 << 20, "a buffer in place took \(more >> 20) MiB of memory beside")

        // In the background, of an array that nobody else holds.
        for at in values.indices { values[at] = Float(rank + 1) }
        let back = try await group.background.allReduce(consume values, .sum).value
        let end = back.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        expect(back.allSatisfy { $0 == sum }, "the sum in the background")
        expect(end == address, "the array was copied on its way through the background")
    }

    /// Groups come and go without a trace.
    func leaks() throws(LycaonError) {
        func cycle(_ number: Int) throws(LycaonError) {
            let part = try group.split(color: number % 3, key: rank)
            var values = [Int32](repeating: Int32(rank + number), count: 64)
            try part.allReduce(&values, .sum)
            let expected = size * (size - 1) / 2 + size * number
            expect(values == [Int32](repeating: Int32(expected), count: 64), "cycle \(number)")
        }
        // Until tables and pools have the size that they keep.
        for number in 0..<30_000 { try cycle(number) }
        let cycles = 10_000
        let before = Self.resident()
        for number in 0..<cycles { try cycle(number) }
        let grown = Self.resident() - before
        // Of a group that was closed the library keeps its number, so that late messages go nowhere.
        expect(grown < 1 << 20, "\(cycles) groups left \(grown >> 10) KiB behind")
        print("resident memory of rank \(rank) grew by \(grown >> 10) KiB in \(cycles) cycles")
    }

    /// Errors, works and tasks leave nothing behind either.
    func leaksOfErrors() async throws(LycaonError) {
        func cycle(_ number: Int) async throws(LycaonError) {
            let error = expectError("a bad root") { () throws(LycaonError) in
                var values = [1, 2]
                try blocking(&values)
            }
            guard case .argument(.noSuchRank(_, 99, _), _) = error else { fail("\(error)") }
            let sum = try await group.allReduce([number], .sum)
            expect(sum == [number * size], "cycle \(number)")
            let other = 1 - rank
            let got = try await group.sendReceive(
                [Float](repeating: Float(number), count: 100), to: other, receiving: 100, from: other)
            expect(got == [Float](repeating: Float(number), count: 100), "exchange \(number)")
        }
        let cycles = 5_000
        for number in 0..<cycles / 5 { try await cycle(number) }
        let before = Self.resident()
        for number in 0..<cycles { try await cycle(number) }
        let grown = Self.resident() - before
        expect(grown < 1 << 20, "\(cycles) errors and works left \(grown >> 10) KiB behind")
    }

    func blocking(_ values: inout [Int]) throws(LycaonError) {
        try group.broadcast(&values, root: 99)
    }
}

/// Looks at the anonymous memory every other millisecond, from a thread of its own.
final class Watch: @unchecked Sendable {
    private let lock = NSLock()
    private var largest = 0
    private var stopped = false
    private let ended = DispatchSemaphore(value: 0)

    init() {
        let thread = Thread { [self] in
            while true {
                let now = Memory.resident(anonymous: true)
                let done = lock.withLock { () -> Bool in
                    largest = max(largest, now)
                    return stopped
                }
                if done { break }
                usleep(2000)
            }
            ended.signal()
        }
        thread.start()
    }

    func stop() -> Int {
        lock.withLock { stopped = true }
        ended.wait()
        return lock.withLock { largest }
    }
}
