import Foundation

/// Operations on `Data`, whose bytes are elements of the type that is given: plain bytes unless it says
/// otherwise. Counts are elements of that type. With `inout` they work in place and without a copy (of
/// data that have no other owner).
extension Group {
    /// Reduces the elements of all ranks; every rank gets the result in place of its own.
    public func allReduce<T: LycaonElement>(
        _ data: inout Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) throws(LycaonError) {
        try changing(&data) { bytes throws(LycaonError) in
            try _allReduce(nil, bytes, T.dataType, op)
        }
    }

    /// The reduction of the elements of all ranks.
    public func allReduce<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(bytes: data.count) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _allReduce(input, output, T.dataType, op)
            }
        }
    }

    /// The data of all ranks, in rank order. All ranks give equally many bytes.
    public func allGather<T: LycaonElement>(
        _ data: Data, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(bytes: try times(data.count)) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _allGather(input, output, nil, T.dataType)
            }
        }
    }

    /// The data of all ranks, in rank order, where rank `i` gives `counts[i]` elements. All ranks pass
    /// the same counts.
    public func allGather<T: LycaonElement>(
        _ data: Data, counts: [Int], as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(try total(counts), of: type) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _allGather(input, output, counts, T.dataType)
            }
        }
    }

    /// Reduces the elements of all ranks; the result is the block of it that is this rank's.
    public func reduceScatter<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(bytes: data.count / size) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _reduceScatter(input, output, nil, T.dataType, op)
            }
        }
    }

    /// As ``reduceScatter(_:_:as:)``, where rank `i` gets `counts[i]` elements. All ranks pass the same
    /// counts.
    public func reduceScatter<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, counts: [Int], as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(try own(counts), of: type) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _reduceScatter(input, output, counts, T.dataType, op)
            }
        }
    }

    /// Every rank gets the root's data, in place of its own, which are as many.
    public func broadcast<T: LycaonElement>(
        _ data: inout Data, root: Int = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) {
        try changing(&data) { bytes throws(LycaonError) in
            try _broadcast(bytes, root, T.dataType)
        }
    }

    /// Reduces the elements of all ranks; the root gets the result in place of its own, those of the
    /// others stay as they are.
    public func reduce<T: LycaonElement>(
        _ data: inout Data, _ op: ReduceOperator, root: Int = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) {
        guard rank == root else {
            return try reading(data) { input throws(LycaonError) in
                try _reduce(input, nil, root, T.dataType, op)
            }
        }
        try changing(&data) { bytes throws(LycaonError) in
            try _reduce(nil, bytes, root, T.dataType, op)
        }
    }

    /// The reduction of the elements of all ranks at the root; `nil` elsewhere.
    public func reduce<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, root: Int = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data? {
        try filledAtRoot(root, bytes: data.count) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _reduce(input, output, root, T.dataType, op)
            }
        }
    }

    /// The data of all ranks, in rank order, at the root; `nil` elsewhere.
    public func gather<T: LycaonElement>(
        _ data: Data, root: Int = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data? {
        try filledAtRoot(root, bytes: try times(data.count)) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _gather(input, output, .equal, root, T.dataType)
            }
        }
    }

    /// As ``gather(_:root:as:)``, where rank `i` gives `counts[i]` elements; only the root gives
    /// counts.
    public func gather<T: LycaonElement>(
        _ data: Data, counts: [Int]?, root: Int = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data? {
        let bytes = try bytes(of: type, try total(counts ?? []))
        return try filledAtRoot(root, bytes: bytes) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _gather(input, output, .byRank(counts), root, T.dataType)
            }
        }
    }

    /// This rank's block, of `count` elements, of the data that only the root gives.
    public func scatter<T: LycaonElement>(
        _ data: Data?, count: Int, root: Int = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(count, of: type) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _scatter(input, output, .equal, root, T.dataType)
            }
        }
    }

    /// As ``scatter(_:count:root:as:)``, where rank `i` gets `counts[i]` elements; only the root gives
    /// data and counts.
    public func scatter<T: LycaonElement>(
        _ data: Data?, counts: [Int]?, count: Int, root: Int = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(count, of: type) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _scatter(input, output, .byRank(counts), root, T.dataType)
            }
        }
    }

    /// The `rank`-th block of every rank's data, in rank order. `data` holds `size` equal blocks.
    public func allToAll<T: LycaonElement>(
        _ data: Data, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(bytes: data.count) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _allToAll(input, nil, output, nil, T.dataType)
            }
        }
    }

    /// As ``allToAll(_:as:)``, with `sendCounts[i]` elements going to rank `i` and `receiveCounts[i]`
    /// coming from it.
    public func allToAll<T: LycaonElement>(
        _ data: Data, sendCounts: [Int], receiveCounts: [Int], as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(try total(receiveCounts), of: type) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _allToAll(input, sendCounts, output, receiveCounts, T.dataType)
            }
        }
    }

    /// Rank `i` gets the reduction of the elements of ranks 0 to `i`, in place of its own.
    public func scan<T: LycaonElement>(
        _ data: inout Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) throws(LycaonError) {
        try changing(&data) { bytes throws(LycaonError) in
            try _scan(nil, bytes, T.dataType, op)
        }
    }

    /// The reduction of the elements of ranks 0 to this one.
    public func scan<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(bytes: data.count) { output throws(LycaonError) in
            try reading(data) { input throws(LycaonError) in
                try _scan(input, output, T.dataType, op)
            }
        }
    }

    /// Sends data to a rank. The receiver names the same element type.
    public func send<T: LycaonElement>(
        _ data: Data, to destination: Int, tag: UInt32 = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) {
        try lending(data) { input throws(LycaonError) in
            try _send(input, destination, tag, T.dataType)
        }
    }

    /// Receives data from a rank, in place of what is there; the message has exactly that length.
    public func receive<T: LycaonElement>(
        into data: inout Data, from source: Int, tag: UInt32 = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) {
        try changing(&data) { bytes throws(LycaonError) in
            try _receive(bytes, source, tag, T.dataType)
        }
    }

    /// Receives `count` elements from a rank; the message has exactly that length.
    public func receiveData<T: LycaonElement>(
        count: Int, from source: Int, tag: UInt32 = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(count, of: type) { output throws(LycaonError) in
            try _receive(output, source, tag, T.dataType)
        }
    }

    /// Sends to one rank and receives `count` elements from another (or the same) at the same time.
    public func sendReceive<T: LycaonElement>(
        _ data: Data, to destination: Int, receiving count: Int, from source: Int,
        tag: UInt32 = 0, as type: T.Type = UInt8.self
    ) throws(LycaonError) -> Data {
        try filled(count, of: type) { output throws(LycaonError) in
            try lending(data) { input throws(LycaonError) in
                try _sendReceive(input, destination, output, source, tag, T.dataType)
            }
        }
    }
}

extension Group {
    private func bytes<T: LycaonElement>(
        of type: T.Type, _ count: Int
    ) throws(LycaonError) -> Int {
        try _checkCount(count, MemoryLayout<T>.stride)
        return count * MemoryLayout<T>.stride
    }

    private func filled<T: LycaonElement>(
        _ count: Int, of type: T.Type,
        _ fill: (UnsafeMutableRawBufferPointer) throws(LycaonError) -> Void
    ) throws(LycaonError) -> Data {
        try filled(bytes: try bytes(of: type, count), fill)
    }

    private func filled(
        bytes count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(LycaonError) -> Void
    ) throws(LycaonError) -> Data {
        var data = Data(count: count)
        try changing(&data, fill)
        return data
    }

    private func filledAtRoot(
        _ root: Int, bytes count: Int,
        _ fill: (UnsafeMutableRawBufferPointer?) throws(LycaonError) -> Void
    ) throws(LycaonError) -> Data? {
        guard rank == root else {
            try fill(nil)
            return nil
        }
        return try filled(bytes: count) { output throws(LycaonError) in try fill(output) }
    }

    private func reading(
        _ data: Data?, _ read: (UnsafeRawBufferPointer?) throws(LycaonError) -> Void
    ) throws(LycaonError) {
        guard let data else { return try read(nil) }
        try lending(data) { bytes throws(LycaonError) in try read(bytes) }
    }

    // Foundation's own forms forget the type of the error.

    private func lending(
        _ data: Data, _ read: (UnsafeRawBufferPointer) throws(LycaonError) -> Void
    ) throws(LycaonError) {
        var failure: LycaonError?
        data.withUnsafeBytes { bytes in
            do throws(LycaonError) { try read(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    private func changing(
        _ data: inout Data, _ change: (UnsafeMutableRawBufferPointer) throws(LycaonError) -> Void
    ) throws(LycaonError) {
        var failure: LycaonError?
        data.withUnsafeMutableBytes { bytes in
            do throws(LycaonError) { try change(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }
}
