// What an allReduce of 8 bytes costs from Swift; `examples/overhead.rs` is the same in Rust.

import Lycaon

struct Overhead {
    let group: Group
    let calls = 20_000

    /// Nanoseconds per call, best of several rounds: the others were disturbed.
    func measure(_ call: () throws(LycaonError) -> Void) throws(LycaonError) -> Double {
        var best = Double.infinity
        for _ in 0..<25 {
            try group.barrier()
            let clock = ContinuousClock()
            let began = clock.now
            for _ in 0..<calls { try call() }
            let (seconds, attoseconds) = (clock.now - began).components
            best = min(best, (Double(seconds) * 1e9 + Double(attoseconds) * 1e-9) / Double(calls))
        }
        return best
    }

    func run() throws(LycaonError) {
        var values: [Double] = [1]
        let array = try measure { () throws(LycaonError) in try group.allReduce(&values, .max) }
        let buffer = UnsafeMutableBufferPointer<Double>.allocate(capacity: 1)
        defer { buffer.deallocate() }
        buffer[0] = 1
        let pointer = try measure { () throws(LycaonError) in try group.allReduce(buffer, .max) }
        if group.rank == 0 { print("\(array) \(pointer)") }
    }
}

try Overhead(group: Group.initialize()).run()
