internal import CLycaon
internal import LycaonBridge

/// Counts by rank as a rooted operation takes them.
@usableFromInline
enum RootedCounts {
    /// All ranks have equally many.
    case equal
    /// One entry per rank, at the root only.
    case byRank([Int]?)
}

// The calls into the library, for every element type at once. A missing input means in place. The
// buffers are lent for the time of the call and not kept.
extension Group {
    @usableFromInline
    func _allReduce(
        _ input: UnsafeRawBufferPointer?, _ output: UnsafeMutableRawBufferPointer,
        _ type: DataType, _ op: ReduceOperator
    ) throws(LycaonError) {
        try collective(LycaonRequest(.allReduce, type, op), input, output)
    }

    @usableFromInline
    func _scan(
        _ input: UnsafeRawBufferPointer?, _ output: UnsafeMutableRawBufferPointer,
        _ type: DataType, _ op: ReduceOperator
    ) throws(LycaonError) {
        try collective(LycaonRequest(.scan, type, op), input, output)
    }

    @usableFromInline
    func _allGather(
        _ input: UnsafeRawBufferPointer?, _ output: UnsafeMutableRawBufferPointer,
        _ counts: [Int]?, _ type: DataType
    ) throws(LycaonError) {
        let request = LycaonRequest(.allGather, type)
        guard let counts else { return try collective(request, input, output) }
        try collective(request, LycaonCountsAll, counts, nil, input, output)
    }

    @usableFromInline
    func _reduceScatter(
        _ input: UnsafeRawBufferPointer?, _ output: UnsafeMutableRawBufferPointer,
        _ counts: [Int]?, _ type: DataType, _ op: ReduceOperator
    ) throws(LycaonError) {
        let request = LycaonRequest(.reduceScatter, type, op)
        guard let counts else { return try collective(request, input, output) }
        try collective(request, LycaonCountsAll, counts, nil, input, output)
    }

    @usableFromInline
    func _broadcast(
        _ values: UnsafeMutableRawBufferPointer, _ root: Int, _ type: DataType
    ) throws(LycaonError) {
        try collective(LycaonRequest(.broadcast, type, root: try checked(root)), nil, values)
    }

    @usableFromInline
    func _reduce(
        _ input: UnsafeRawBufferPointer?, _ output: UnsafeMutableRawBufferPointer?, _ root: Int,
        _ type: DataType, _ op: ReduceOperator
    ) throws(LycaonError) {
        try collective(LycaonRequest(.reduce, type, op, root: try checked(root)), input, output)
    }

    @usableFromInline
    func _gather(
        _ input: UnsafeRawBufferPointer?, _ output: UnsafeMutableRawBufferPointer?,
        _ counts: RootedCounts, _ root: Int, _ type: DataType
    ) throws(LycaonError) {
        let request = LycaonRequest(.gather, type, root: try checked(root))
        guard case .byRank(let counts) = counts else { return try collective(request, input, output) }
        try atRoot(root, counts != nil, "counts")
        try collective(request, LycaonCountsAtRoot, counts ?? [], nil, input, output)
    }

    @usableFromInline
    func _scatter(
        _ input: UnsafeRawBufferPointer?, _ output: UnsafeMutableRawBufferPointer?,
        _ counts: RootedCounts, _ root: Int, _ type: DataType
    ) throws(LycaonError) {
        let request = LycaonRequest(.scatter, type, root: try checked(root))
        try atRoot(root, input != nil, "input")
        guard case .byRank(let counts) = counts else { return try collective(request, input, output) }
        try atRoot(root, counts != nil, "counts")
        try collective(request, LycaonCountsAtRoot, counts ?? [], nil, input, output)
    }

    @usableFromInline
    func _allToAll(
        _ input: UnsafeRawBufferPointer?, _ sendCounts: [Int]?,
        _ output: UnsafeMutableRawBufferPointer, _ receiveCounts: [Int]?, _ type: DataType
    ) throws(LycaonError) {
        let request = LycaonRequest(.allToAll, type)
        guard let sendCounts, let receiveCounts else {
            return try collective(request, input, output)
        }
        try collective(request, LycaonCountsExchange, sendCounts, receiveCounts, input, output)
    }

    @usableFromInline
    func _barrier() throws(LycaonError) {
        try collective(LycaonRequest(.barrier, .uint8), nil, nil)
    }

    @usableFromInline
    func _send(
        _ values: UnsafeRawBufferPointer, _ destination: Int, _ tag: UInt32, _ type: DataType
    ) throws(LycaonError) {
        let to = try checked(destination, "destination")
        try done(
            lycaon_swift_message(
                handle, type.rawValue, LycaonInput(values), to, LycaonOutput(nil), 0, tag))
    }

    @usableFromInline
    func _receive(
        _ values: UnsafeMutableRawBufferPointer, _ source: Int, _ tag: UInt32, _ type: DataType
    ) throws(LycaonError) {
        let from = try checked(source, "source")
        try done(
            lycaon_swift_message(
                handle, type.rawValue, LycaonInput(nil), 0, LycaonOutput(values), from, tag))
    }

    @usableFromInline
    func _sendReceive(
        _ values: UnsafeRawBufferPointer, _ destination: Int,
        _ received: UnsafeMutableRawBufferPointer, _ source: Int, _ tag: UInt32, _ type: DataType
    ) throws(LycaonError) {
        let to = try checked(destination, "destination")
        let from = try checked(source, "source")
        try done(
            lycaon_swift_message(
                handle, type.rawValue, LycaonInput(values), to, LycaonOutput(received), from, tag))
    }
}

extension Group {
    /// Starts to send, to receive or both. `ended` is called once, from any thread, when the library has
    /// let go of the parcels; not at all if this throws.
    func start(
        _ outgoing: (parcel: Parcel, to: Int)?, _ incoming: (parcel: Parcel, from: Int)?,
        _ tag: UInt32, _ type: DataType, ended: @escaping @Sendable (LycaonError?) -> Void
    ) throws(LycaonError) {
        let to = try checked(outgoing?.to ?? 0, "destination")
        let from = try checked(incoming?.from ?? 0, "source")
        let ending = Unmanaged.passRetained(
            Ending(keeping: [outgoing?.parcel, incoming?.parcel], ended))
        let failure = lycaon_swift_start_message(
            handle, type.rawValue, LycaonInput(outgoing.map { UnsafeRawBufferPointer($0.parcel.bytes) }),
            to, LycaonOutput(incoming?.parcel.bytes), from, tag,
            { context, failure in
                guard let context else { return }
                Unmanaged<Ending>.fromOpaque(context).takeRetainedValue().tell(failure)
            }, ending.toOpaque())
        if failure != nil { ending.release() }
        try done(failure)
    }

    /// Forms sub-groups: ranks that give the same colour form one, ordered by `key` and, where keys
    /// are equal, by their rank here. All ranks have to call it. The new group has an order and an
    /// error state of its own and uses the links of this one.
    public func split(color: Int, key: Int = 0) throws(LycaonError) -> Group {
        Self.ofColor(try split(color: Optional(color), key: key))
    }

    /// As the form with a colour; ranks that give no colour join no group and get `nil`.
    public func split(color: Int?, key: Int = 0) throws(LycaonError) -> Group? {
        guard let number = UInt32(exactly: color ?? 0) else {
            throw .argument(
                .outOfRange(what: "color", value: color ?? 0),
                message: "color \(color ?? 0) is not from 0 to \(UInt32.max)")
        }
        lane.settle()
        var made: OpaquePointer?
        try done(lycaon_swift_split(handle, color != nil, number, Int64(key), &made))
        return made.map(Group.init(handle:))
    }

    /// The group of a rank that has given a colour.
    static func ofColor(_ group: Group?) -> Group {
        guard let group else { preconditionFailure("a rank with a colour is in its group") }
        return group
    }
}

/// Whom to tell of the end of a message; keeps the memory until then.
private final class Ending: Sendable {
    private let parcels: [Parcel?]
    private let ended: @Sendable (LycaonError?) -> Void

    init(keeping parcels: [Parcel?], _ ended: @escaping @Sendable (LycaonError?) -> Void) {
        self.parcels = parcels
        self.ended = ended
    }

    func tell(_ failure: UnsafeMutableRawPointer?) {
        ended(failure.map { LycaonError(Failure(ptr: $0)) })
    }
}

// --- the way there and back -----------------------------------------------------------------

extension Group {
    private func collective(
        _ request: LycaonRequest, _ input: UnsafeRawBufferPointer?,
        _ output: UnsafeMutableRawBufferPointer?
    ) throws(LycaonError) {
        lane.settle()
        var request = request
        try done(lycaon_swift_collective(handle, &request, LycaonInput(input), LycaonOutput(output)))
    }

    private func collective(
        _ request: LycaonRequest, _ form: LycaonCountsForm, _ counts: [Int],
        _ received: [Int]?, _ input: UnsafeRawBufferPointer?,
        _ output: UnsafeMutableRawBufferPointer?
    ) throws(LycaonError) {
        var request = request
        request.form = form
        let counts = try natural(counts)
        let received = try natural(received ?? [])
        lane.settle()
        let failure = counts.withUnsafeBufferPointer { counts in
            received.withUnsafeBufferPointer { received in
                request.counts = counts.baseAddress
                request.count_entries = counts.count
                request.receive_counts = received.baseAddress
                request.receive_entries = received.count
                return lycaon_swift_collective(
                    handle, &request, LycaonInput(input), LycaonOutput(output))
            }
        }
        try done(failure)
    }

    /// The failure of a call, if it has one. It is this side's from here on.
    @inline(__always)
    private func done(_ failure: UnsafeMutableRawPointer?) throws(LycaonError) {
        if let failure { throw LycaonError(Failure(ptr: failure)) }
    }

    /// What a rank must be for the library to look at it: not negative.
    private func checked(_ rank: Int, _ what: String = "root") throws(LycaonError) -> Int {
        guard rank >= 0 else {
            throw .argument(
                .noSuchRank(what: what, rank: rank, size: size),
                message: "\(what) \(rank) is not in the group, whose ranks are 0 to \(size - 1)")
        }
        return rank
    }

    /// Only the root gives some things.
    private func atRoot(_ root: Int, _ given: Bool, _ what: String) throws(LycaonError) {
        if rank == root, !given {
            throw .argument(
                .missingBuffer(rank: rank, what: what), message: "rank \(rank) must give \(what)")
        }
        if rank != root, given, root < size {
            throw .argument(
                .unusedBuffer(rank: rank, what: what),
                message: "rank \(rank) gave \(what) where only other ranks have one; leave it out")
        }
    }

    private func natural(_ counts: [Int]) throws(LycaonError) -> [UInt64] {
        var natural: [UInt64] = []
        natural.reserveCapacity(counts.count)
        for count in counts {
            try _checkCount(count, 1)
            natural.append(UInt64(count))
        }
        return natural
    }
}

extension LycaonRequest {
    @inline(__always)
    init(
        _ operation: Operation, _ type: DataType, _ op: ReduceOperator? = nil, root: Int? = nil
    ) {
        self.init(
            operation: operation.rawValue, dtype: type.rawValue, op: op?.rawValue ?? 255,
            rooted: root != nil, form: LycaonCountsEqual, root: root ?? 0, counts: nil,
            count_entries: 0, receive_counts: nil, receive_entries: 0)
    }
}

extension LycaonInput {
    @inline(__always)
    init(_ bytes: UnsafeRawBufferPointer?) {
        self.init(base: bytes?.baseAddress, length: bytes?.count ?? 0, given: bytes != nil)
    }
}

extension LycaonOutput {
    @inline(__always)
    init(_ bytes: UnsafeMutableRawBufferPointer?) {
        self.init(base: bytes?.baseAddress, length: bytes?.count ?? 0, given: bytes != nil)
    }
}
