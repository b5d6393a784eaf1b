/// Operations on memory of the caller's, without a copy. They block until the result is there or the
/// deadline has passed, and the pointers are not kept.
extension Group {
    /// Reduces the values of all ranks; every rank gets the result in place of its values.
    ///
    /// The result is bitwise equal on all ranks.
    @inlinable
    public func allReduce<T: LycaonElement>(
        _ values: UnsafeMutableBufferPointer<T>, _ op: ReduceOperator
    ) throws(LycaonError) {
        try _allReduce(nil, UnsafeMutableRawBufferPointer(values), T.dataType, op)
    }

    /// As the form in place, from `input` into `output` of the same length.
    @inlinable
    public func allReduce<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>,
        _ op: ReduceOperator
    ) throws(LycaonError) {
        try _allReduce(
            UnsafeRawBufferPointer(input), UnsafeMutableRawBufferPointer(output), T.dataType, op)
    }

    /// Every rank gets the inputs of all ranks, in rank order. `output` is `size` times as long as
    /// `input`; with `counts`, which are the same on all ranks, rank `i` gives `counts[i]` elements.
    @inlinable
    public func allGather<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>,
        counts: [Int]? = nil
    ) throws(LycaonError) {
        try _allGather(
            UnsafeRawBufferPointer(input), UnsafeMutableRawBufferPointer(output), counts, T.dataType)
        _check(output)
    }

    /// As ``allGather(_:into:counts:)``, with this rank's contribution already at its place.
    @inlinable
    public func allGatherInPlace<T: LycaonElement>(
        _ values: UnsafeMutableBufferPointer<T>, counts: [Int]? = nil
    ) throws(LycaonError) {
        try _allGather(nil, UnsafeMutableRawBufferPointer(values), counts, T.dataType)
        _check(values)
    }

    /// Reduces the inputs of all ranks; rank `i` gets the `i`-th of `size` equal blocks of the
    /// result, or with `counts`, which are the same on all ranks, `counts[i]` elements of it.
    @inlinable
    public func reduceScatter<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>,
        _ op: ReduceOperator, counts: [Int]? = nil
    ) throws(LycaonError) {
        try _reduceScatter(
            UnsafeRawBufferPointer(input), UnsafeMutableRawBufferPointer(output), counts,
            T.dataType, op)
    }

    /// As ``reduceScatter(_:into:_:counts:)``, in place: returns the range of `values` that holds this
    /// rank's block of the result; the rest is unspecified afterwards.
    @inlinable
    public func reduceScatterInPlace<T: LycaonElement>(
        _ values: UnsafeMutableBufferPointer<T>, _ op: ReduceOperator
    ) throws(LycaonError) -> Range<Int> {
        try _reduceScatter(nil, UnsafeMutableRawBufferPointer(values), nil, T.dataType, op)
        let block = values.count / size
        return rank * block..<(rank + 1) * block
    }

    /// Every rank gets the root's values.
    @inlinable
    public func broadcast<T: LycaonElement>(
        _ values: UnsafeMutableBufferPointer<T>, root: Int = 0
    ) throws(LycaonError) {
        try _broadcast(UnsafeMutableRawBufferPointer(values), root, T.dataType)
        _check(values)
    }

    /// Reduces the values of all ranks; the root gets the result in place of its values, those of
    /// the others stay as they are.
    @inlinable
    public func reduce<T: LycaonElement>(
        _ values: UnsafeMutableBufferPointer<T>, _ op: ReduceOperator, root: Int = 0
    ) throws(LycaonError) {
        if rank == root {
            try _reduce(nil, UnsafeMutableRawBufferPointer(values), root, T.dataType, op)
        } else {
            try _reduce(UnsafeRawBufferPointer(values), nil, root, T.dataType, op)
        }
    }

    /// As the form in place, from `input` into the `output` that only the root gives.
    @inlinable
    public func reduce<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>?,
        _ op: ReduceOperator, root: Int = 0
    ) throws(LycaonError) {
        try _reduce(
            UnsafeRawBufferPointer(input), output.map(UnsafeMutableRawBufferPointer.init), root,
            T.dataType, op)
    }

    /// The root gets the inputs of all ranks, in rank order, in the `output` that only it gives.
    @inlinable
    public func gather<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>?, root: Int = 0
    ) throws(LycaonError) {
        try _gather(
            UnsafeRawBufferPointer(input), output.map(UnsafeMutableRawBufferPointer.init), .equal,
            root, T.dataType)
        if let output { _check(output) }
    }

    /// As ``gather(_:into:root:)``, where rank `i` gives `counts[i]` elements; only the root gives
    /// output and counts.
    @inlinable
    public func gather<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>?,
        counts: [Int]?, root: Int = 0
    ) throws(LycaonError) {
        try _gather(
            UnsafeRawBufferPointer(input), output.map(UnsafeMutableRawBufferPointer.init),
            .byRank(counts), root, T.dataType)
        if let output { _check(output) }
    }

    /// Rank `i` gets the `i`-th of `size` equal blocks of the `input` that only the root gives.
    @inlinable
    public func scatter<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>?, into output: UnsafeMutableBufferPointer<T>, root: Int = 0
    ) throws(LycaonError) {
        try _scatter(
            input.map(UnsafeRawBufferPointer.init), UnsafeMutableRawBufferPointer(output), .equal,
            root, T.dataType)
        _check(output)
    }

    /// As ``scatter(_:into:root:)``, where rank `i` gets `counts[i]` elements; only the root gives
    /// input and counts.
    @inlinable
    public func scatter<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>?, into output: UnsafeMutableBufferPointer<T>,
        counts: [Int]?, root: Int = 0
    ) throws(LycaonError) {
        try _scatter(
            input.map(UnsafeRawBufferPointer.init), UnsafeMutableRawBufferPointer(output),
            .byRank(counts), root, T.dataType)
        _check(output)
    }

    /// Rank `i` gets the `i`-th block of every rank's input, in rank order. Both buffers hold `size`
    /// equal blocks.
    @inlinable
    public func allToAll<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>
    ) throws(LycaonError) {
        try _allToAll(
            UnsafeRawBufferPointer(input), nil, UnsafeMutableRawBufferPointer(output), nil,
            T.dataType)
        _check(output)
    }

    /// As ``allToAll(_:into:)``, with `sendCounts[i]` elements going to rank `i` and
    /// `receiveCounts[i]` coming from it.
    @inlinable
    public func allToAll<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, sendCounts: [Int],
        into output: UnsafeMutableBufferPointer<T>, receiveCounts: [Int]
    ) throws(LycaonError) {
        try _allToAll(
            UnsafeRawBufferPointer(input), sendCounts, UnsafeMutableRawBufferPointer(output),
            receiveCounts, T.dataType)
        _check(output)
    }

    /// As ``allToAll(_:into:)``, in place of the values (which the library copies for it).
    @inlinable
    public func allToAllInPlace<T: LycaonElement>(
        _ values: UnsafeMutableBufferPointer<T>
    ) throws(LycaonError) {
        try _allToAll(nil, nil, UnsafeMutableRawBufferPointer(values), nil, T.dataType)
        _check(values)
    }

    /// Rank `i` gets the reduction of the values of ranks 0 to `i`, in place of its values.
    @inlinable
    public func scan<T: LycaonElement>(
        _ values: UnsafeMutableBufferPointer<T>, _ op: ReduceOperator
    ) throws(LycaonError) {
        try _scan(nil, UnsafeMutableRawBufferPointer(values), T.dataType, op)
    }

    /// As the form in place, from `input` into `output` of the same length.
    @inlinable
    public func scan<T: LycaonElement>(
        _ input: UnsafeBufferPointer<T>, into output: UnsafeMutableBufferPointer<T>,
        _ op: ReduceOperator
    ) throws(LycaonError) {
        try _scan(
            UnsafeRawBufferPointer(input), UnsafeMutableRawBufferPointer(output), T.dataType, op)
    }

    /// Sends values to a rank. Messages with one tag between two ranks arrive in the order in which
    /// they were sent; tags are independent of one another. Small messages are buffered, large ones
    /// wait for the receiver.
    @inlinable
    public func send<T: LycaonElement>(
        _ values: UnsafeBufferPointer<T>, to destination: Int, tag: UInt32 = 0
    ) throws(LycaonError) {
        try _send(UnsafeRawBufferPointer(values), destination, tag, T.dataType)
    }

    /// Receives values from a rank; the message has exactly the length of `values`.
    @inlinable
    public func receive<T: LycaonElement>(
        into values: UnsafeMutableBufferPointer<T>, from source: Int, tag: UInt32 = 0
    ) throws(LycaonError) {
        try _receive(UnsafeMutableRawBufferPointer(values), source, tag, T.dataType)
        _check(values)
    }

    /// Sends to one rank and receives from another (or the same) at the same time, so that rings of
    /// ranks do not wait for one another.
    @inlinable
    public func sendReceive<T: LycaonElement>(
        _ values: UnsafeBufferPointer<T>, to destination: Int,
        into received: UnsafeMutableBufferPointer<T>, from source: Int, tag: UInt32 = 0
    ) throws(LycaonError) {
        try _sendReceive(
            UnsafeRawBufferPointer(values), destination, UnsafeMutableRawBufferPointer(received),
            source, tag, T.dataType)
        _check(received)
    }

    /// Other languages may send bytes other than 0 and 1 as bool; in Swift they must not be seen.
    @inlinable
    func _check<T: LycaonElement>(_ values: UnsafeMutableBufferPointer<T>) {
        if T.self == Bool.self { _checkBools(UnsafeMutableRawBufferPointer(values)) }
    }

    @usableFromInline
    func _checkBools(_ bytes: UnsafeMutableRawBufferPointer) {
        for at in bytes.indices where bytes[at] > 1 { bytes[at] = 1 }
    }
}
