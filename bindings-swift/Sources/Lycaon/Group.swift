internal import CLycaon
internal import LycaonBridge

/// A group of ranks that compute together.
///
/// A group is an ordered stream: collectives complete in the order in which they were called, and
/// every rank has to call the same ones in the same order. Messages between two ranks are ordered
/// by tag and do not wait for collectives.
///
/// Every operation has three forms. On `inout` arrays and on buffers it runs on the caller's thread,
/// in place and without a copy, and blocks until the result is there or ``timeout`` has passed. The
/// `async` form takes and returns arrays and blocks no thread of the cooperative pool. The form in
/// ``background`` returns a ``Work`` at once; it is what overlaps communication with computing, since
/// the order of the calls is the order on the page.
///
/// When an operation fails for another reason than a wrong argument, the group is poisoned: every
/// later call throws the first cause at once. The last reference closes the group; neither that nor
/// ``close()`` ever hangs.
public final class Group: Sendable {
    /// This rank, from 0 to ``size``` - 1`.
    public let rank: Int
    /// The number of ranks.
    public let size: Int

    // The C side may be called from any thread, and the handle lives as long as this object.
    nonisolated(unsafe) let handle: OpaquePointer
    let lane = Lane()

    /// Takes over a handle.
    init(handle: OpaquePointer) {
        self.handle = handle
        rank = lycaon_swift_rank(handle)
        size = lycaon_swift_size(handle)
    }

    deinit {
        lycaon_swift_free(handle)
    }

    // --- start -----------------------------------------------------------------------------

    /// Starts the group that a configuration describes.
    ///
    /// All ranks have to call it. It returns when all links are there, and throws the same first
    /// cause on every rank if that does not happen within the start-up deadline.
    public convenience init(configuration: Configuration) throws(LycaonError) {
        self.init(handle: try Self.start(configuration))
    }

    /// As the blocking form; the thread is free meanwhile.
    ///
    /// Cancelling the task ends the wait. The start itself goes on until it has succeeded or failed
    /// within its own deadline, and a group that it still forms is closed.
    public convenience init(configuration: Configuration) async throws(LycaonError) {
        if Task.isCancelled { throw .cancelled(called: false) }
        let work = Work<Handle>()
        Lane().call {
            work.run { () throws(LycaonError) in Handle(try Self.start(configuration)) }
        }
        let handle = try await work.take(timeout: nil)
        self.init(handle: handle.release())
    }

    /// Starts the group that the environment describes. Without any launch variable that is a group
    /// of one, in which everything works and moves no data.
    public static func initialize() throws(LycaonError) -> Group {
        try Group(configuration: .environment)
    }

    /// As the blocking form; the thread is free meanwhile.
    public static func initialize() async throws(LycaonError) -> Group {
        try await Group(configuration: .environment)
    }

    private static func start(_ configuration: Configuration) throws(LycaonError) -> OpaquePointer {
        let setup = try configuration.setup()
        let started: Started
        do {
            started = try setup.start()
        } catch {
            throw LycaonError(bridged: error)
        }
        guard let handle = OpaquePointer(bitPattern: started.take_handle()) else {
            throw .internal(message: "a start gave no group; this is a bug to report")
        }
        return handle
    }

    // --- end -------------------------------------------------------------------------------

    /// Closes the group: later calls fail, operations under way fail, and if this was the last group
    /// of the job its links are closed. May be called more than once.
    public func close() {
        lycaon_swift_close(handle)
    }
}

/// A handle on its way from the thread that made it. If nobody takes it over it is freed.
private final class Handle: Sendable {
    private let handle: Locked<UInt>

    init(_ handle: OpaquePointer) {
        self.handle = Locked(UInt(bitPattern: handle))
    }

    func release() -> OpaquePointer {
        let address = handle.withLock { handle in
            defer { handle = 0 }
            return handle
        }
        guard let handle = OpaquePointer(bitPattern: address) else {
            preconditionFailure("a handle is released once")
        }
        return handle
    }

    deinit {
        if let handle = OpaquePointer(bitPattern: handle.withLock { $0 }) {
            lycaon_swift_free(handle)
        }
    }
}
