/// Operations on arrays. With `inout` they work in place and without a copy (of an array that has no
/// other owner, as always in Swift); the others return a new array. All of them block until the result
/// is there or the deadline has passed.
extension Group {
    /// Reduces the values of all ranks; every rank gets the result in place of its values.
    ///
    /// The result is bitwise equal on all ranks.
    @inlinable
    public func allReduce<T: LycaonElement>(
        _ values: inout [T], _ op: ReduceOperator
    ) throws(LycaonError) {
        try changing(&values) { buffer throws(LycaonError) in
            try allReduce(buffer, op)
        }
    }

    /// The reduction of the values of all ranks.
    @inlinable
    public func allReduce<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator
    ) throws(LycaonError) -> [T] {
        try filled(values.count) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try allReduce(input, into: output, op)
            }
        }
    }

    /// The values of all ranks, in rank order. All ranks give equally many.
    @inlinable
    public func allGather<T: LycaonElement>(_ values: [T]) throws(LycaonError) -> [T] {
        try filled(try times(values.count)) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try allGather(input, into: output)
            }
        }
    }

    /// The values of all ranks, in rank order, where rank `i` gives `counts[i]`. All ranks pass the
    /// same counts.
    @inlinable
    public func allGather<T: LycaonElement>(
        _ values: [T], counts: [Int]
    ) throws(LycaonError) -> [T] {
        try filled(try total(counts)) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try allGather(input, into: output, counts: counts)
            }
        }
    }

    /// Reduces the values of all ranks; the result is the block of it that is this rank's: the
    /// `rank`-th of `size` equal ones.
    @inlinable
    public func reduceScatter<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator
    ) throws(LycaonError) -> [T] {
        try filled(values.count / size) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try reduceScatter(input, into: output, op)
            }
        }
    }

    /// As ``reduceScatter(_:_:)``, where rank `i` gets `counts[i]` elements. All ranks pass the same
    /// counts.
    @inlinable
    public func reduceScatter<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator, counts: [Int]
    ) throws(LycaonError) -> [T] {
        try filled(try own(counts)) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try reduceScatter(input, into: output, op, counts: counts)
            }
        }
    }

    /// Every rank gets the root's values, in place of its own.
    @inlinable
    public func broadcast<T: LycaonElement>(
        _ values: inout [T], root: Int = 0
    ) throws(LycaonError) {
        try changing(&values) { buffer throws(LycaonError) in
            try broadcast(buffer, root: root)
        }
    }

    /// Reduces the values of all ranks; the root gets the result in place of its values, those of
    /// the others stay as they are.
    @inlinable
    public func reduce<T: LycaonElement>(
        _ values: inout [T], _ op: ReduceOperator, root: Int = 0
    ) throws(LycaonError) {
        try changing(&values) { buffer throws(LycaonError) in
            try reduce(buffer, op, root: root)
        }
    }

    /// The reduction of the values of all ranks at the root; `nil` elsewhere.
    @inlinable
    public func reduce<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator, root: Int = 0
    ) throws(LycaonError) -> [T]? {
        try filledAtRoot(root, values.count) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try reduce(input, into: output, op, root: root)
            }
        }
    }

    /// The values of all ranks, in rank order, at the root; `nil` elsewhere.
    @inlinable
    public func gather<T: LycaonElement>(
        _ values: [T], root: Int = 0
    ) throws(LycaonError) -> [T]? {
        try filledAtRoot(root, try times(values.count)) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try gather(input, into: output, root: root)
            }
        }
    }

    /// As ``gather(_:root:)``, where rank `i` gives `counts[i]` values; only the root gives counts.
    @inlinable
    public func gather<T: LycaonElement>(
        _ values: [T], counts: [Int]?, root: Int = 0
    ) throws(LycaonError) -> [T]? {
        try filledAtRoot(root, try total(counts ?? [])) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try gather(input, into: output, counts: counts, root: root)
            }
        }
    }

    /// This rank's block, of `count` elements, of the values that only the root gives.
    @inlinable
    public func scatter<T: LycaonElement>(
        _ values: [T]?, count: Int, root: Int = 0
    ) throws(LycaonError) -> [T] {
        try filled(count) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try scatter(input, into: output, root: root)
            }
        }
    }

    /// As ``scatter(_:count:root:)``, where rank `i` gets `counts[i]` elements; only the root gives
    /// values and counts.
    @inlinable
    public func scatter<T: LycaonElement>(
        _ values: [T]?, counts: [Int]?, count: Int, root: Int = 0
    ) throws(LycaonError) -> [T] {
        try filled(count) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try scatter(input, into: output, counts: counts, root: root)
            }
        }
    }

    /// The `rank`-th block of every rank's values, in rank order. `values` holds `size` equal blocks.
    @inlinable
    public func allToAll<T: LycaonElement>(_ values: [T]) throws(LycaonError) -> [T] {
        try filled(values.count) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try allToAll(input, into: output)
            }
        }
    }

    /// As ``allToAll(_:)``, with `sendCounts[i]` elements going to rank `i` and `receiveCounts[i]`
    /// coming from it.
    @inlinable
    public func allToAll<T: LycaonElement>(
        _ values: [T], sendCounts: [Int], receiveCounts: [Int]
    ) throws(LycaonError) -> [T] {
        try filled(try total(receiveCounts)) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try allToAll(
                    input, sendCounts: sendCounts, into: output, receiveCounts: receiveCounts)
            }
        }
    }

    /// Rank `i` gets the reduction of the values of ranks 0 to `i`, in place of its values.
    @inlinable
    public func scan<T: LycaonElement>(
        _ values: inout [T], _ op: ReduceOperator
    ) throws(LycaonError) {
        try changing(&values) { buffer throws(LycaonError) in
            try scan(buffer, op)
        }
    }

    /// The reduction of the values of ranks 0 to this one.
    @inlinable
    public func scan<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator
    ) throws(LycaonError) -> [T] {
        try filled(values.count) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try scan(input, into: output, op)
            }
        }
    }

    /// Returns when every rank has called it.
    public func barrier() throws(LycaonError) {
        try _barrier()
    }

    /// Sends values to a rank. Messages with one tag between two ranks arrive in the order in which
    /// they were sent; tags are independent of one another.
    @inlinable
    public func send<T: LycaonElement>(
        _ values: [T], to destination: Int, tag: UInt32 = 0
    ) throws(LycaonError) {
        try reading(values) { buffer throws(LycaonError) in
            try send(buffer, to: destination, tag: tag)
        }
    }

    /// Receives `count` values from a rank; the message has exactly that length.
    @inlinable
    public func receive<T: LycaonElement>(
        _ type: T.Type = T.self, count: Int, from source: Int, tag: UInt32 = 0
    ) throws(LycaonError) -> [T] {
        try filled(count) { output throws(LycaonError) in
            try receive(into: output, from: source, tag: tag)
        }
    }

    /// Receives values from a rank, in place of those of the array; the message has exactly their
    /// number.
    @inlinable
    public func receive<T: LycaonElement>(
        into values: inout [T], from source: Int, tag: UInt32 = 0
    ) throws(LycaonError) {
        try changing(&values) { buffer throws(LycaonError) in
            try receive(into: buffer, from: source, tag: tag)
        }
    }

    /// Sends to one rank and receives `count` values from another (or the same) at the same time, so
    /// that rings of ranks do not wait for one another.
    @inlinable
    public func sendReceive<T: LycaonElement>(
        _ values: [T], to destination: Int, receiving count: Int, from source: Int, tag: UInt32 = 0
    ) throws(LycaonError) -> [T] {
        try filled(count) { output throws(LycaonError) in
            try reading(values) { input throws(LycaonError) in
                try sendReceive(input, to: destination, into: output, from: source, tag: tag)
            }
        }
    }
}

// Making results. Nothing is initialised twice: the operation fills new memory.
extension Group {
    @inlinable
    func filled<T: LycaonElement>(
        _ count: Int,
        _ fill: (UnsafeMutableBufferPointer<T>) throws(LycaonError) -> Void
    ) throws(LycaonError) -> [T] {
        try _checkCount(count, MemoryLayout<T>.stride)
        var failure: LycaonError?
        let array = [T](unsafeUninitializedCapacity: count) { memory, initialized in
            do throws(LycaonError) {
                try fill(UnsafeMutableBufferPointer(start: memory.baseAddress, count: count))
                initialized = count
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return array
    }

    @inlinable
    func filledAtRoot<T: LycaonElement>(
        _ root: Int, _ count: Int,
        _ fill: (UnsafeMutableBufferPointer<T>?) throws(LycaonError) -> Void
    ) throws(LycaonError) -> [T]? {
        guard rank == root else {
            try fill(nil)
            return nil
        }
        return try filled(count) { output throws(LycaonError) in try fill(output) }
    }

    @inlinable
    func reading<T: LycaonElement>(
        _ values: [T]?,
        _ read: (UnsafeBufferPointer<T>?) throws(LycaonError) -> Void
    ) throws(LycaonError) {
        guard let values else { return try read(nil) }
        try reading(values) { (buffer: UnsafeBufferPointer<T>) throws(LycaonError) in
            try read(buffer)
        }
    }

    // The standard library's own forms forget the type of the error.

    @inlinable
    func reading<T: LycaonElement>(
        _ values: [T],
        _ read: (UnsafeBufferPointer<T>) throws(LycaonError) -> Void
    ) throws(LycaonError) {
        var failure: LycaonError?
        values.withUnsafeBufferPointer { buffer in
            do throws(LycaonError) { try read(buffer) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    @inlinable
    func changing<T: LycaonElement>(
        _ values: inout [T],
        _ change: (UnsafeMutableBufferPointer<T>) throws(LycaonError) -> Void
    ) throws(LycaonError) {
        var failure: LycaonError?
        values.withUnsafeMutableBufferPointer { buffer in
            do throws(LycaonError) { try change(buffer) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// `count` for every rank.
    @usableFromInline
    func times(_ count: Int) throws(LycaonError) -> Int {
        let (product, overflow) = count.multipliedReportingOverflow(by: size)
        if overflow { throw Self.tooLarge("output") }
        return product
    }

    /// The sum of counts, each of which is checked.
    @usableFromInline
    func total(_ counts: [Int]) throws(LycaonError) -> Int {
        var sum = 0
        for count in counts {
            try _checkCount(count, 1)
            let (next, overflow) = sum.addingReportingOverflow(count)
            if overflow { throw Self.tooLarge("output") }
            sum = next
        }
        return sum
    }

    /// This rank's entry of a list that has one for every rank.
    @usableFromInline
    func own(_ counts: [Int]) throws(LycaonError) -> Int {
        guard counts.count == size else {
            throw .argument(
                .counts(what: "counts", actual: counts.count, size: size),
                message: "counts has \(counts.count) entries for a group of \(size)")
        }
        return counts[rank]
    }

    @usableFromInline
    func _checkCount(_ count: Int, _ stride: Int) throws(LycaonError) {
        guard count >= 0 else {
            throw .argument(
                .outOfRange(what: "count", value: count), message: "a count of \(count) is below zero")
        }
        guard count <= Int.max / stride else { throw Self.tooLarge("output") }
    }

    static func tooLarge(_ what: String) -> LycaonError {
        .argument(
            .tooLarge(what: what), message: "\(what) would hold more elements than memory can have")
    }
}
