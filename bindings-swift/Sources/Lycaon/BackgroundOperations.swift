import Dispatch

/// Operations that run while the program goes on; see ``Group/background``.
///
/// Collectives run one after the other in the order of the calls here, also with regard to blocking
/// calls of the same group, on a thread that the group has for it. An array that nothing else holds
/// (`consume values`) is reduced in place and without a copy.
///
/// Messages are all under way at once and cost no thread each. They are copied on their way, since an
/// array lends its memory for the time of a call only; the blocking forms do without.
public struct BackgroundOperations: Sendable {
    let group: Group

    func collective<Value: Sendable>(
        _ operation: @escaping @Sendable () throws(LycaonError) -> Value
    ) -> Work<Value> {
        let work = Work<Value>()
        group.lane.call { work.run(operation) }
        return work
    }

    /// A message under way. The result is made when it has ended.
    func message<Value: Sendable>(
        _ outgoing: (parcel: Parcel, to: Int)?, _ incoming: (parcel: Parcel, from: Int)?,
        _ tag: UInt32, _ type: DataType, _ result: @escaping @Sendable () -> Value
    ) -> Work<Value> {
        let work = Work<Value>()
        // The thread of all messages does not copy large ones.
        let isLarge = (incoming?.parcel.bytes.count ?? 0) > 1 << 16
        do throws(LycaonError) {
            try group.start(outgoing, incoming, tag, type) { error in
                let end = { @Sendable in
                    work.run { () throws(LycaonError) in
                        if let error { throw error }
                        return result()
                    }
                }
                if isLarge { DispatchQueue.global().async(execute: end) } else { end() }
            }
        } catch {
            return failed(error)
        }
        return work
    }

    /// Room for a message that is to come.
    func room<T: LycaonElement>(
        _ count: Int, of type: T.Type
    ) throws(LycaonError) -> Parcel {
        try group._checkCount(count, MemoryLayout<T>.stride)
        return Parcel(count: count * MemoryLayout<T>.stride)
    }

    /// The work of an operation that could not be called.
    func failed<Value: Sendable>(_ error: LycaonError) -> Work<Value> {
        let work = Work<Value>()
        work.run { () throws(LycaonError) in throw error }
        return work
    }

    /// Reduces the values of all ranks; every rank gets the result.
    public func allReduce<T: LycaonElement>(
        _ values: consuming [T], _ op: ReduceOperator
    ) -> Work<[T]> {
        let box = Box(values)
        return collective { [group] () throws(LycaonError) in
            try group.allReduce(&box.value, op)
            return box.take()
        }
    }

    /// The values of all ranks, in rank order.
    public func allGather<T: LycaonElement>(_ values: [T]) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in try group.allGather(values) }
    }

    /// The values of all ranks, in rank order, where rank `i` gives `counts[i]`.
    public func allGather<T: LycaonElement>(_ values: [T], counts: [Int]) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in try group.allGather(values, counts: counts) }
    }

    /// This rank's block of the reduction of all values.
    public func reduceScatter<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator
    ) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in try group.reduceScatter(values, op) }
    }

    /// This rank's part of the reduction of all values: `counts[rank]` elements.
    public func reduceScatter<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator, counts: [Int]
    ) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in
            try group.reduceScatter(values, op, counts: counts)
        }
    }

    /// Every rank gets the root's values.
    public func broadcast<T: LycaonElement>(
        _ values: consuming [T], root: Int = 0
    ) -> Work<[T]> {
        let box = Box(values)
        return collective { [group] () throws(LycaonError) in
            try group.broadcast(&box.value, root: root)
            return box.take()
        }
    }

    /// The reduction of all values at the root; `nil` elsewhere.
    public func reduce<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator, root: Int = 0
    ) -> Work<[T]?> {
        collective { [group] () throws(LycaonError) in try group.reduce(values, op, root: root) }
    }

    /// The values of all ranks, in rank order, at the root; `nil` elsewhere.
    public func gather<T: LycaonElement>(_ values: [T], root: Int = 0) -> Work<[T]?> {
        collective { [group] () throws(LycaonError) in try group.gather(values, root: root) }
    }

    /// The values of all ranks, where rank `i` gives `counts[i]`, at the root, which alone gives the
    /// counts; `nil` elsewhere.
    public func gather<T: LycaonElement>(
        _ values: [T], counts: [Int]?, root: Int = 0
    ) -> Work<[T]?> {
        collective { [group] () throws(LycaonError) in
            try group.gather(values, counts: counts, root: root)
        }
    }

    /// This rank's block, of `count` elements, of the values that only the root gives.
    public func scatter<T: LycaonElement>(
        _ values: [T]?, count: Int, root: Int = 0
    ) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in
            try group.scatter(values, count: count, root: root)
        }
    }

    /// This rank's part, of `count` elements, of the values that only the root gives, with counts.
    public func scatter<T: LycaonElement>(
        _ values: [T]?, counts: [Int]?, count: Int, root: Int = 0
    ) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in
            try group.scatter(values, counts: counts, count: count, root: root)
        }
    }

    /// The `rank`-th block of every rank's values, in rank order.
    public func allToAll<T: LycaonElement>(_ values: [T]) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in try group.allToAll(values) }
    }

    /// What every rank has for this one: `receiveCounts[i]` elements from rank `i`.
    public func allToAll<T: LycaonElement>(
        _ values: [T], sendCounts: [Int], receiveCounts: [Int]
    ) -> Work<[T]> {
        collective { [group] () throws(LycaonError) in
            try group.allToAll(values, sendCounts: sendCounts, receiveCounts: receiveCounts)
        }
    }

    /// The reduction of the values of ranks 0 to this one.
    public func scan<T: LycaonElement>(
        _ values: consuming [T], _ op: ReduceOperator
    ) -> Work<[T]> {
        let box = Box(values)
        return collective { [group] () throws(LycaonError) in
            try group.scan(&box.value, op)
            return box.take()
        }
    }

    /// Ends when every rank has called it.
    public func barrier() -> Work<Void> {
        collective { [group] () throws(LycaonError) in try group.barrier() }
    }

    /// Forms sub-groups; see the blocking form.
    public func split(color: Int?, key: Int = 0) -> Work<Group?> {
        collective { [group] () throws(LycaonError) in try group.split(color: color, key: key) }
    }

    /// Sends values to a rank.
    public func send<T: LycaonElement>(
        _ values: [T], to destination: Int, tag: UInt32 = 0
    ) -> Work<Void> {
        message((Parcel(values), destination), nil, tag, T.dataType) {}
    }

    /// Receives `count` values from a rank.
    public func receive<T: LycaonElement>(
        _ type: T.Type = T.self, count: Int, from source: Int, tag: UInt32 = 0
    ) -> Work<[T]> {
        do throws(LycaonError) {
            let room = try room(count, of: type)
            return message(nil, (room, source), tag, T.dataType) { room.array(of: type) }
        } catch {
            return failed(error)
        }
    }

    /// Sends to one rank and receives `count` values from another (or the same) at the same time.
    public func sendReceive<T: LycaonElement>(
        _ values: [T], to destination: Int, receiving count: Int, from source: Int, tag: UInt32 = 0
    ) -> Work<[T]> {
        do throws(LycaonError) {
            let room = try room(count, of: T.self)
            return message((Parcel(values), destination), (room, source), tag, T.dataType) {
                room.array(of: T.self)
            }
        } catch {
            return failed(error)
        }
    }
}

extension Group {
    /// The operations of this group in a form that returns a ``Work`` at once.
    public var background: BackgroundOperations { BackgroundOperations(group: self) }
}
