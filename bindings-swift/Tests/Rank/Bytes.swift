import Foundation
import Lycaon

/// Every operation on `Data`, in its three forms.
struct Bytes {
    let group: Group

    var rank: Int { group.rank }
    var size: Int { group.size }

    /// The elements of a rank as they lie in memory.
    func bytes<T: Sample>(_ type: T.Type, _ count: Int, of rank: Int) -> Data {
        data((0..<count).map { T.sample(rank, $0) })
    }

    func data<T: Sample>(_ elements: [T]) -> Data {
        elements.withUnsafeBytes { Data($0) }
    }

    func run() async throws(LycaonError) {
        for count in [0, 1, 5, 3001] {
            try await check(Float.self, .sum, count)
            try await check(UInt8.self, .bitwiseXor, count)
            try await check(Complex<Double>.self, .average, count)
        }
        try plainBytes()
        try unaligned()
        try noCopy()
    }

    func check<T: Sample>(
        _ type: T.Type, _ op: ReduceOperator, _ count: Int
    ) async throws(LycaonError) {
        let what = "data of \(T.self) × \(count)"
        let whole = Matrix(group: group)
        let own = bytes(type, count, of: rank)
        let large = bytes(type, count * size, of: rank)
        let reduced = data(whole.reduced(type, op, 0..<count))
        let scanned = data(whole.reduced(type, op, 0..<count, upTo: rank))
        let everybody = (0..<size).reduce(Data()) { $0 + bytes(type, count, of: $1) }
        let counts = (0..<size).map { count + 2 * $0 }
        let uneven = (0..<size).reduce(Data()) { $0 + bytes(type, counts[$1], of: $1) }
        let start = counts[..<rank].reduce(0, +)
        let root = size - 1
        let atRoot = rank == root
        let part = bytes(type, counts[rank], of: rank)
        let block = data(whole.reduced(type, op, rank * count..<(rank + 1) * count))
        let range = data(whole.reduced(type, op, start..<start + counts[rank]))
        let many = bytes(type, counts.reduce(0, +), of: rank)

        let outgoing = (0..<size).reduce(Data()) { $0 + bytes(type, count, of: 10 * rank + $1) }
        let incoming = (0..<size).reduce(Data()) { $0 + bytes(type, count, of: 10 * $1 + rank) }
        let send = (0..<size).map { count + rank + 2 * $0 }
        let receive = (0..<size).map { count + $0 + 2 * rank }
        let sent = (0..<size).reduce(Data()) { $0 + bytes(type, send[$1], of: 10 * rank + $1) }
        let due = (0..<size).reduce(Data()) { $0 + bytes(type, receive[$1], of: 10 * $1 + rank) }

        func same(_ actual: Data, _ expected: Data, _ operation: String) {
            expectEqual(Array(actual), Array(expected), "\(operation) of \(what)")
        }
        func same(_ actual: Data?, atRoot expected: Data, _ operation: String) {
            expect((actual != nil) == atRoot, "\(operation) of \(what) gives a result at the root")
            if let actual { same(actual, expected, operation) }
        }

        // Blocking.
        func blocking() throws(LycaonError) {
            var values = own
            try group.allReduce(&values, op, as: type)
            same(values, reduced, "allReduce in place")
            same(try group.allReduce(own, op, as: type), reduced, "allReduce")
            same(try group.allGather(own, as: type), everybody, "allGather")
            same(try group.allGather(part, counts: counts, as: type), uneven, "allGather by counts")
            same(try group.reduceScatter(large, op, as: type), block, "reduceScatter")
            same(
                try group.reduceScatter(many, op, counts: counts, as: type), range,
                "reduceScatter by counts")
            values = own
            try group.broadcast(&values, root: root, as: type)
            same(values, bytes(type, count, of: root), "broadcast")
            values = own
            try group.reduce(&values, op, root: root, as: type)
            same(values, atRoot ? reduced : own, "reduce in place")
            same(try group.reduce(own, op, root: root, as: type), atRoot: reduced, "reduce")
            same(try group.gather(own, root: root, as: type), atRoot: everybody, "gather")
            same(
                try group.gather(part, counts: atRoot ? counts : nil, root: root, as: type),
                atRoot: uneven, "gather by counts")
            same(
                try group.scatter(atRoot ? everybody : nil, count: count, root: root, as: type), own,
                "scatter")
            same(
                try group.scatter(
                    atRoot ? uneven : nil, counts: atRoot ? counts : nil, count: counts[rank],
                    root: root, as: type),
                part, "scatter by counts")
            same(try group.allToAll(outgoing, as: type), incoming, "allToAll")
            same(
                try group.allToAll(sent, sendCounts: send, receiveCounts: receive, as: type), due,
                "allToAll by counts")
            values = own
            try group.scan(&values, op, as: type)
            same(values, scanned, "scan in place")
            same(try group.scan(own, op, as: type), scanned, "scan")
            same(
                try group.sendReceive(
                    own, to: (rank + 1) % size, receiving: count, from: (rank + size - 1) % size,
                    tag: 3, as: type),
                bytes(type, count, of: (rank + size - 1) % size), "sendReceive")
            if rank == 0 {
                try group.send(own, to: 1, tag: 4, as: type)
                try group.send(own, to: 1, tag: 4, as: type)
            } else if rank == 1 {
                try group.receive(into: &values, from: 0, tag: 4, as: type)
                same(values, bytes(type, count, of: 0), "receive in place")
                same(
                    try group.receiveData(count: count, from: 0, tag: 4, as: type),
                    bytes(type, count, of: 0), "receive")
            }
        }
        try blocking()

        // Awaited.
        same(try await group.allReduce(own, op, as: type), reduced, "async allReduce")
        same(try await group.allGather(own, as: type), everybody, "async allGather")
        same(
            try await group.allGather(part, counts: counts, as: type), uneven,
            "async allGather by counts")
        same(try await group.reduceScatter(large, op, as: type), block, "async reduceScatter")
        same(
            try await group.reduceScatter(many, op, counts: counts, as: type), range,
            "async reduceScatter by counts")
        same(
            try await group.broadcast(own, root: root, as: type), bytes(type, count, of: root),
            "async broadcast")
        same(try await group.reduce(own, op, root: root, as: type), atRoot: reduced, "async reduce")
        same(try await group.gather(own, root: root, as: type), atRoot: everybody, "async gather")
        same(
            try await group.gather(part, counts: atRoot ? counts : nil, root: root, as: type),
            atRoot: uneven, "async gather by counts")
        same(
            try await group.scatter(atRoot ? everybody : nil, count: count, root: root, as: type),
            own, "async scatter")
        same(
            try await group.scatter(
                atRoot ? uneven : nil, counts: atRoot ? counts : nil, count: counts[rank],
                root: root, as: type),
            part, "async scatter by counts")
        same(try await group.allToAll(outgoing, as: type), incoming, "async allToAll")
        same(
            try await group.allToAll(sent, sendCounts: send, receiveCounts: receive, as: type), due,
            "async allToAll by counts")
        same(try await group.scan(own, op, as: type), scanned, "async scan")
        same(
            try await group.sendReceive(
                own, to: (rank + 1) % size, receiving: count, from: (rank + size - 1) % size,
                tag: 3, as: type),
            bytes(type, count, of: (rank + size - 1) % size), "async sendReceive")
        if rank == 0 { try await group.send(own, to: 1, tag: 4, as: type) }
        if rank == 1 {
            same(
                try await group.receiveData(count: count, from: 0, tag: 4, as: type),
                bytes(type, count, of: 0), "async receive")
        }
    }

    /// Without a type the elements are bytes.
    func plainBytes() throws(LycaonError) {
        var text = Data("rank \(rank)".utf8)
        try group.broadcast(&text)
        expectEqual(Array(text), Array("rank 0".utf8), "broadcast of text")
        let all = try group.allGather(Data([UInt8(rank)]))
        expectEqual(Array(all), (0..<size).map { UInt8($0) }, "allGather of bytes")

        let error = expectError("seven bytes as Float") { () throws(LycaonError) in
            var ragged = Data(count: 7)
            try group.allReduce(&ragged, .sum, as: Float.self)
        }
        guard case .argument(.ragged(_, bytes: 7, dataType: .float32), _) = error else {
            fail("seven bytes as Float: \(error)")
        }
    }

    /// A slice begins where it likes; the elements in it are not aligned.
    func unaligned() throws(LycaonError) {
        let count = 1000
        var padded = Data([1, 2, 3]) + bytes(Double.self, count, of: rank) + Data([4])
        var slice = padded[3..<3 + 8 * count]
        padded = Data()
        try group.allReduce(&slice, .sum, as: Double.self)
        let expected = data(Matrix(group: group).reduced(Double.self, .sum, 0..<count))
        expectEqual(Array(slice), Array(expected), "allReduce of a slice")
    }

    /// Data with one owner are reduced where they are.
    func noCopy() throws(LycaonError) {
        var values = Data(count: 1 << 20)
        func address() -> UInt { values.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }
        let before = address()
        try group.allReduce(&values, .sum, as: Float.self)
        expect(address() == before, "the data were replaced")
    }
}
