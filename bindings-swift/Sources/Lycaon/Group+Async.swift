/// Operations that suspend the task. No thread of the cooperative pool waits: the operation runs on
/// a thread of the group.
///
/// Cancelling the task, or the end of `timeout`, ends the wait with ``LycaonError/cancelled(called:)``
/// or ``LycaonError/timedOut(after:)``; the operation goes on, since the other ranks count on it, and
/// its result is dropped. A task that is cancelled before the call calls nothing.
///
/// Operations of one group that several tasks call at the same time have no order that the ranks
/// could agree on. To have several under way, start them with ``Group/background`` in one place.
extension Group {
    func take<Value: Sendable>(
        _ timeout: Duration?, _ start: (BackgroundOperations) -> Work<Value>
    ) async throws(LycaonError) -> Value {
        if Task.isCancelled { throw .cancelled(called: false) }
        return try await start(background).take(timeout: timeout)
    }

    /// The reduction of the values of all ranks.
    public func allReduce<T: LycaonElement>(
        _ values: consuming [T], _ op: ReduceOperator, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        if Task.isCancelled { throw .cancelled(called: false) }
        return try await background.allReduce(values, op).take(timeout: timeout)
    }

    /// The values of all ranks, in rank order. All ranks give equally many.
    public func allGather<T: LycaonElement>(
        _ values: [T], timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.allGather(values) }
    }

    /// The values of all ranks, in rank order, where rank `i` gives `counts[i]`. All ranks pass the
    /// same counts.
    public func allGather<T: LycaonElement>(
        _ values: [T], counts: [Int], timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.allGather(values, counts: counts) }
    }

    /// This rank's block of the reduction of all values.
    public func reduceScatter<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.reduceScatter(values, op) }
    }

    /// This rank's part of the reduction of all values: `counts[rank]` elements.
    public func reduceScatter<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator, counts: [Int], timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.reduceScatter(values, op, counts: counts) }
    }

    /// The root's values.
    public func broadcast<T: LycaonElement>(
        _ values: consuming [T], root: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        if Task.isCancelled { throw .cancelled(called: false) }
        return try await background.broadcast(values, root: root).take(timeout: timeout)
    }

    /// The reduction of the values of all ranks at the root; `nil` elsewhere.
    public func reduce<T: LycaonElement>(
        _ values: [T], _ op: ReduceOperator, root: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T]? {
        try await take(timeout) { $0.reduce(values, op, root: root) }
    }

    /// The values of all ranks, in rank order, at the root; `nil` elsewhere.
    public func gather<T: LycaonElement>(
        _ values: [T], root: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T]? {
        try await take(timeout) { $0.gather(values, root: root) }
    }

    /// As ``gather(_:root:timeout:)``, where rank `i` gives `counts[i]` values; only the root gives
    /// counts.
    public func gather<T: LycaonElement>(
        _ values: [T], counts: [Int]?, root: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T]? {
        try await take(timeout) { $0.gather(values, counts: counts, root: root) }
    }

    /// This rank's block, of `count` elements, of the values that only the root gives.
    public func scatter<T: LycaonElement>(
        _ values: [T]?, count: Int, root: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.scatter(values, count: count, root: root) }
    }

    /// As ``scatter(_:count:root:timeout:)``, where rank `i` gets `counts[i]` elements; only the root
    /// gives values and counts.
    public func scatter<T: LycaonElement>(
        _ values: [T]?, counts: [Int]?, count: Int, root: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.scatter(values, counts: counts, count: count, root: root) }
    }

    /// The `rank`-th block of every rank's values, in rank order.
    public func allToAll<T: LycaonElement>(
        _ values: [T], timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.allToAll(values) }
    }

    /// What every rank has for this one: `receiveCounts[i]` elements from rank `i`.
    public func allToAll<T: LycaonElement>(
        _ values: [T], sendCounts: [Int], receiveCounts: [Int], timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) {
            $0.allToAll(values, sendCounts: sendCounts, receiveCounts: receiveCounts)
        }
    }

    /// The reduction of the values of ranks 0 to this one.
    public func scan<T: LycaonElement>(
        _ values: consuming [T], _ op: ReduceOperator, timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        if Task.isCancelled { throw .cancelled(called: false) }
        return try await background.scan(values, op).take(timeout: timeout)
    }

    /// Returns when every rank has called it.
    public func barrier(timeout: Duration? = nil) async throws(LycaonError) {
        try await take(timeout) { $0.barrier() }
    }

    /// Forms sub-groups; see the blocking form.
    public func split(
        color: Int?, key: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> Group? {
        try await take(timeout) { $0.split(color: color, key: key) }
    }

    /// Forms sub-groups; see the blocking form.
    public func split(
        color: Int, key: Int = 0, timeout: Duration? = nil
    ) async throws(LycaonError) -> Group {
        Self.ofColor(try await take(timeout) { $0.split(color: color, key: key) })
    }

    /// Sends values to a rank.
    public func send<T: LycaonElement>(
        _ values: [T], to destination: Int, tag: UInt32 = 0, timeout: Duration? = nil
    ) async throws(LycaonError) {
        try await take(timeout) { $0.send(values, to: destination, tag: tag) }
    }

    /// Receives `count` values from a rank.
    public func receive<T: LycaonElement>(
        _ type: T.Type = T.self, count: Int, from source: Int, tag: UInt32 = 0,
        timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) { $0.receive(type, count: count, from: source, tag: tag) }
    }

    /// Sends to one rank and receives `count` values from another (or the same) at the same time.
    public func sendReceive<T: LycaonElement>(
        _ values: [T], to destination: Int, receiving count: Int, from source: Int, tag: UInt32 = 0,
        timeout: Duration? = nil
    ) async throws(LycaonError) -> [T] {
        try await take(timeout) {
            $0.sendReceive(values, to: destination, receiving: count, from: source, tag: tag)
        }
    }
}
