import Lycaon

/// Every operation for every element type and operator, against what one process computes.
struct Matrix {
    let group: Group

    var rank: Int { group.rank }
    var size: Int { group.size }

    func run() throws(LycaonError) {
        try check(Bool.self)
        try check(Int8.self)
        try check(Int16.self)
        try check(Int32.self)
        try check(Int64.self)
        try check(Int.self)
        try check(UInt8.self)
        try check(UInt16.self)
        try check(UInt32.self)
        try check(UInt64.self)
        try check(UInt.self)
        #if !((os(macOS) || targetEnvironment(macCatalyst)) && arch(x86_64))
        try check(Float16.self)
        #endif
        try check(BFloat16.self)
        try check(Float.self)
        try check(Double.self)
        try check(Complex<Float>.self)
        try check(Complex<Double>.self)
    }

    func check<T: Sample>(_ type: T.Type) throws(LycaonError) {
        for op in ReduceOperator.allCases {
            for count in [0, 1, 3, 257] { try reductions(type, op, count) }
        }
        for count in [0, 1, 2, 129] { try moves(type, count) }
        // More than one chunk of everything.
        try reductions(type, T.reference(.sum, [T.sample(0, 0)]) == nil ? .bitwiseXor : .sum, 50_021)
        try moves(type, 50_021)
    }

    func own<T: Sample>(_ count: Int, of other: Int? = nil) -> [T] {
        (0..<count).map { T.sample(other ?? rank, $0) }
    }

    func reduced<T: Sample>(
        _ type: T.Type, _ op: ReduceOperator, _ indices: Range<Int>, upTo last: Int? = nil
    ) -> [T] {
        indices.map { index in
            T.reference(op, (0...(last ?? size - 1)).map { T.sample($0, index) })!
        }
    }

    func reductions<T: Sample>(
        _ type: T.Type, _ op: ReduceOperator, _ count: Int
    ) throws(LycaonError) {
        let what = "\(T.self) × \(count), \(op)"
        guard T.reference(op, [T.sample(0, 0)]) != nil else {
            return try undefined(type, op)
        }
        let expected = reduced(type, op, 0..<count)

        var values: [T] = own(count)
        try group.allReduce(&values, op)
        expectEqual(values, expected, "allReduce in place of \(what)")
        expectEqual(try group.allReduce(own(count), op), expected, "allReduce of \(what)")

        values = own(count)
        try group.scan(&values, op)
        let scanned = reduced(type, op, 0..<count, upTo: rank)
        expectEqual(values, scanned, "scan in place of \(what)")
        expectEqual(try group.scan(own(count), op), scanned, "scan of \(what)")

        let root = size - 1
        values = own(count)
        try group.reduce(&values, op, root: root)
        expectEqual(values, rank == root ? expected : own(count), "reduce in place of \(what)")
        let atRoot = try group.reduce(own(count) as [T], op, root: 0)
        expect((atRoot == nil) == (rank != 0), "reduce of \(what) gives a result at the root")
        if let atRoot { expectEqual(atRoot, expected, "reduce of \(what)") }

        // One block per rank, then blocks that differ.
        let block = try group.reduceScatter(own(count * size) as [T], op)
        expectEqual(
            block, reduced(type, op, rank * count..<(rank + 1) * count), "reduceScatter of \(what)")
        var whole: [T] = own(count * size)
        let place = try inPlace(&whole) { buffer throws(LycaonError) in
            try group.reduceScatterInPlace(buffer, op)
        }
        expectEqual(Array(whole[place]), block, "reduceScatter in place of \(what)")
        let counts = (0..<size).map { count / size + $0 }
        let start = counts[..<rank].reduce(0, +)
        expectEqual(
            try group.reduceScatter(own(counts.reduce(0, +)), op, counts: counts),
            reduced(type, op, start..<start + counts[rank]), "reduceScatter with counts of \(what)")
    }

    /// An operator that makes no sense is an error at the call, on this rank alone, and harmless.
    func undefined<T: Sample>(_ type: T.Type, _ op: ReduceOperator) throws(LycaonError) {
        let error = expectError("allReduce of \(T.self), \(op)") { () throws(LycaonError) in
            var values: [T] = own(2)
            try group.allReduce(&values, op)
        }
        guard case .argument(.unsupported(op, T.dataType), let message) = error else {
            fail("allReduce of \(T.self), \(op) gives \(error)")
        }
        expect(message.contains("\(op) is not defined for \(T.dataType)"), message)
    }

    func moves<T: Sample>(_ type: T.Type, _ count: Int) throws(LycaonError) {
        let what = "\(T.self) × \(count)"
        let everybody: [T] = (0..<size).flatMap { own(count, of: $0) }
        let counts = (0..<size).map { (count + $0 * 3) % (count + 2) }
        let uneven: [T] = (0..<size).flatMap { own(counts[$0], of: $0) }
        let root = 1 % size

        expectEqual(try group.allGather(own(count)), everybody, "allGather of \(what)")
        expectEqual(
            try group.allGather(own(counts[rank]), counts: counts), uneven,
            "allGather with counts of \(what)")
        var whole = [T](repeating: T.sample(9, 9), count: count * size)
        whole.replaceSubrange(rank * count..<(rank + 1) * count, with: own(count))
        try inPlace(&whole) { buffer throws(LycaonError) in try group.allGatherInPlace(buffer) }
        expectEqual(whole, everybody, "allGather in place of \(what)")

        var values: [T] = own(count)
        try group.broadcast(&values, root: root)
        expectEqual(values, own(count, of: root), "broadcast of \(what)")

        let gathered = try group.gather(own(count) as [T], root: root)
        expect((gathered == nil) == (rank != root), "gather of \(what) gives a result at the root")
        if let gathered { expectEqual(gathered, everybody, "gather of \(what)") }
        let unevenly = try group.gather(
            own(counts[rank]) as [T], counts: rank == root ? counts : nil, root: root)
        if let unevenly { expectEqual(unevenly, uneven, "gather with counts of \(what)") }

        expectEqual(
            try group.scatter(rank == root ? everybody : nil, count: count, root: root),
            own(count), "scatter of \(what)")
        expectEqual(
            try group.scatter(
                rank == root ? uneven : nil, counts: rank == root ? counts : nil,
                count: counts[rank], root: root),
            own(counts[rank]), "scatter with counts of \(what)")

        // Rank a has for rank b the samples of a rank "10 a + b".
        let outgoing: [T] = (0..<size).flatMap { own(count, of: 10 * rank + $0) }
        let incoming: [T] = (0..<size).flatMap { own(count, of: 10 * $0 + rank) }
        expectEqual(try group.allToAll(outgoing), incoming, "allToAll of \(what)")
        var exchanged = outgoing
        try inPlace(&exchanged) { buffer throws(LycaonError) in try group.allToAllInPlace(buffer) }
        expectEqual(exchanged, incoming, "allToAll in place of \(what)")
        let send = (0..<size).map { (count + rank + $0 * 2) % (count + 3) }
        let receive = (0..<size).map { (count + $0 + rank * 2) % (count + 3) }
        expectEqual(
            try group.allToAll(
                (0..<size).flatMap { own(send[$0], of: 10 * rank + $0) as [T] }, sendCounts: send,
                receiveCounts: receive),
            (0..<size).flatMap { own(receive[$0], of: 10 * $0 + rank) as [T] },
            "allToAll with counts of \(what)")

        if size > 1 { try messages(type, count) }
    }

    func messages<T: Sample>(_ type: T.Type, _ count: Int) throws(LycaonError) {
        let what = "\(T.self) × \(count)"
        let after = (rank + 1) % size
        let before = (rank + size - 1) % size
        expectEqual(
            try group.sendReceive(own(count) as [T], to: after, receiving: count, from: before, tag: 7),
            own(count, of: before), "sendReceive of \(what)")
        if rank == 0 {
            try group.send(own(count) as [T], to: 1, tag: 1)
            try group.send(own(count, of: 5) as [T], to: 1, tag: 2)
        } else if rank == 1 {
            // Tags do not wait for one another.
            var second = [T](repeating: T.sample(9, 9), count: count)
            if count < 1000 {
                try group.receive(into: &second, from: 0, tag: 2)
                expectEqual(second, own(count, of: 5), "receive of \(what)")
            }
            expectEqual(
                try group.receive(T.self, count: count, from: 0, tag: 1), own(count, of: 0),
                "receive of \(what)")
            if count >= 1000 {
                try group.receive(into: &second, from: 0, tag: 2)
                expectEqual(second, own(count, of: 5), "receive of \(what)")
            }
        }
    }

    /// The buffer of an array, for the forms that take pointers.
    @discardableResult
    func inPlace<T, R>(
        _ values: inout [T],
        _ body: (UnsafeMutableBufferPointer<T>) throws(LycaonError) -> R
    ) throws(LycaonError) -> R {
        let result: Result<R, LycaonError> = values.withUnsafeMutableBufferPointer { buffer in
            do throws(LycaonError) { return .success(try body(buffer)) } catch { return .failure(error) }
        }
        return try result.get()
    }
}
