import Foundation

// The forms for `Data`; see Group+Data.swift.
extension BackgroundOperations {
    /// Reduces the elements of all ranks; every rank gets the result.
    public func allReduce<T: LycaonElement>(
        _ data: consuming Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        let box = Box(data)
        return collective { [group] () throws(LycaonError) in
            try group.allReduce(&box.value, op, as: type)
            return box.take()
        }
    }

    /// The data of all ranks, in rank order.
    public func allGather<T: LycaonElement>(
        _ data: Data, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in try group.allGather(data, as: type) }
    }

    /// The data of all ranks, in rank order, where rank `i` gives `counts[i]` elements.
    public func allGather<T: LycaonElement>(
        _ data: Data, counts: [Int], as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in
            try group.allGather(data, counts: counts, as: type)
        }
    }

    /// This rank's block of the reduction of all elements.
    public func reduceScatter<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in
            try group.reduceScatter(data, op, as: type)
        }
    }

    /// This rank's part of the reduction of all elements: `counts[rank]` elements.
    public func reduceScatter<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, counts: [Int], as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in
            try group.reduceScatter(data, op, counts: counts, as: type)
        }
    }

    /// Every rank gets the root's data.
    public func broadcast<T: LycaonElement>(
        _ data: consuming Data, root: Int = 0, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        let box = Box(data)
        return collective { [group] () throws(LycaonError) in
            try group.broadcast(&box.value, root: root, as: type)
            return box.take()
        }
    }

    /// The reduction of all elements at the root; `nil` elsewhere.
    public func reduce<T: LycaonElement>(
        _ data: Data, _ op: ReduceOperator, root: Int = 0, as type: T.Type = UInt8.self
    ) -> Work<Data?> {
        collective { [group] () throws(LycaonError) in
            try group.reduce(data, op, root: root, as: type)
        }
    }

    /// The data of all ranks, in rank order, at the root; `nil` elsewhere.
    public func gather<T: LycaonElement>(
        _ data: Data, root: Int = 0, as type: T.Type = UInt8.self
    ) -> Work<Data?> {
        collective { [group] () throws(LycaonError) in
            try group.gather(data, root: root, as: type)
        }
    }

    /// The data of all ranks, where rank `i` gives `counts[i]` elements, at the root, which alone gives
    /// the counts; `nil` elsewhere.
    public func gather<T: LycaonElement>(
        _ data: Data, counts: [Int]?, root: Int = 0, as type: T.Type = UInt8.self
    ) -> Work<Data?> {
        collective { [group] () throws(LycaonError) in
            try group.gather(data, counts: counts, root: root, as: type)
        }
    }

    /// This rank's block, of `count` elements, of the data that only the root gives.
    public func scatter<T: LycaonElement>(
        _ data: Data?, count: Int, root: Int = 0, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in
            try group.scatter(data, count: count, root: root, as: type)
        }
    }

    /// This rank's part, of `count` elements, of the data that only the root gives, with counts.
    public func scatter<T: LycaonElement>(
        _ data: Data?, counts: [Int]?, count: Int, root: Int = 0, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in
            try group.scatter(data, counts: counts, count: count, root: root, as: type)
        }
    }

    /// The `rank`-th block of every rank's data, in rank order.
    public func allToAll<T: LycaonElement>(
        _ data: Data, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in try group.allToAll(data, as: type) }
    }

    /// What every rank has for this one: `receiveCounts[i]` elements from rank `i`.
    public func allToAll<T: LycaonElement>(
        _ data: Data, sendCounts: [Int], receiveCounts: [Int], as type: T.Type = UInt8.self
    ) -> Work<Data> {
        collective { [group] () throws(LycaonError) in
            try group.allToAll(data, sendCounts: sendCounts, receiveCounts: receiveCounts, as: type)
        }
    }

    /// The reduction of the elements of ranks 0 to this one.
    public func scan<T: LycaonElement>(
        _ data: consuming Data, _ op: ReduceOperator, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        let box = Box(data)
        return collective { [group] () throws(LycaonError) in
            try group.scan(&box.value, op, as: type)
            return box.take()
        }
    }

    /// Sends data to a rank.
    public func send<T: LycaonElement>(
        _ data: Data, to destination: Int, tag: UInt32 = 0, as type: T.Type = UInt8.self
    ) -> Work<Void> {
        message((Parcel(data), destination), nil, tag, T.dataType) {}
    }

    /// Receives `count` elements from a rank; the message has exactly that length.
    public func receiveData<T: LycaonElement>(
        count: Int, from source: Int, tag: UInt32 = 0, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        do throws(LycaonError) {
            let room = try room(count, of: type)
            return message(nil, (room, source), tag, T.dataType) { room.data() }
        } catch {
            return failed(error)
        }
    }

    /// Sends to one rank and receives `count` elements from another (or the same) at the same time.
    public func sendReceive<T: LycaonElement>(
        _ data: Data, to destination: Int, receiving count: Int, from source: Int,
        tag: UInt32 = 0, as type: T.Type = UInt8.self
    ) -> Work<Data> {
        do throws(LycaonError) {
            let room = try room(count, of: type)
            return message((Parcel(data), destination), (room, source), tag, T.dataType) {
                room.data()
            }
        } catch {
            return failed(error)
        }
    }
}
