import Dispatch

/// Where collectives of a group run that their callers do not wait for on the spot.
///
/// A lane is a serial queue whose thread is not one of the cooperative pool: what is called in it runs
/// in the order of the calls.
final class Lane: Sendable {
    private let queue = DispatchQueue(label: "lycaon")
    /// Operations that were called and have not ended.
    private let pending = Counter()

    // A key never changes; Dispatch does not say so on every platform.
    private nonisolated(unsafe) static let current = DispatchSpecificKey<ObjectIdentifier>()

    init() {
        queue.setSpecific(key: Self.current, value: ObjectIdentifier(queue))
    }

    /// Calls an operation: it runs after those called before it.
    func call(_ operation: @escaping @Sendable () -> Void) {
        pending.add(1)
        queue.async {
            operation()
            self.pending.add(-1)
        }
    }

    /// Waits until what was called before has ended: the place in the order of a call that runs on
    /// the caller's own thread.
    @inline(__always)
    func settle() {
        if pending.value != 0 { wait() }
    }

    private func wait() {
        // An operation of this lane does not wait for itself.
        if DispatchQueue.getSpecific(key: Self.current) != ObjectIdentifier(queue) {
            queue.sync {}
        }
    }
}
