internal import LycaonBridge

/// How far a group has come.
public struct Progress: Sendable, Hashable {
    /// Operations that this rank has begun.
    public var started: UInt64
    /// Operations that have completed.
    public var completed: UInt64
    /// Operations that have failed.
    public var failed: UInt64
    /// Payload bytes that this process has sent over its links, for all groups.
    public var bytesSent: UInt64
    /// Payload bytes that this process has received over its links, for all groups.
    public var bytesReceived: UInt64
}

/// The link between this rank and another one of its group.
public struct LinkInfo: Sendable, Hashable {
    /// The other rank, in this group.
    public var peer: Int
    /// What joins the two.
    public var kind: LinkKind
    /// Where it leads, for example the two addresses of a TCP link.
    public var detail: String
    /// Payload bytes sent over it.
    public var bytesSent: UInt64
    /// Payload bytes received over it.
    public var bytesReceived: UInt64
    /// Messages sent over it.
    public var messagesSent: UInt64
    /// Messages received over it.
    public var messagesReceived: UInt64
}

/// One operation in the flight recorder.
public struct Record: Sendable, Hashable {
    /// How an operation ended.
    public enum Outcome: Sendable, Hashable {
        /// It has not.
        case running
        /// It completed.
        case completed
        /// It failed, with this error.
        case failed(String)
    }

    /// What was called.
    public var call: Call
    /// The other rank of a message, in the group.
    public var peer: Int?
    /// The tag of a message.
    public var tag: UInt32?
    /// How it was carried out; `nil` for messages and in groups of one.
    public var algorithm: Algorithm?
    /// When it began, since the group was formed.
    public var began: Duration
    /// How long it took, or has taken so far.
    public var took: Duration
    /// How it ended.
    public var outcome: Outcome
}

// All of this may be read from any thread at any time; it never waits for an operation.
extension Group {
    private var view: View { LycaonBridge.view(UInt(bitPattern: handle)) }

    /// For each rank of this group, its rank in the job.
    public var members: [Int] {
        let view = view
        return (0..<size).map { Int(view.member(UInt64($0))) }
    }

    /// How long an operation waits while nothing moves before it fails.
    public var timeout: Duration { .nanoseconds(view.timeout_nanoseconds()) }

    /// Sets how long operations called from now on wait while nothing moves before they fail.
    public func setTimeout(_ timeout: Duration) throws(LycaonError) {
        guard let nanoseconds = timeout.nanoseconds, nanoseconds > 0 else {
            throw .configuration(
                .value(name: "timeout", value: "\(timeout)", expected: "a duration above zero"),
                message: "timeout=\(timeout) is not a duration above zero")
        }
        view.set_timeout(nanoseconds)
    }

    /// How far this group has come.
    public var progress: Progress {
        let parts = view.progress()
        return Progress(
            started: parts.started, completed: parts.completed, failed: parts.failed,
            bytesSent: parts.bytes_sent, bytesReceived: parts.bytes_received)
    }

    /// Why the group can no longer be used, if it cannot: what every later call throws at once.
    public var failure: OperationFailure? {
        guard let failure = view.failure(), case .operation(let failure) = LycaonError(failure)
        else { return nil }
        return failure
    }

    /// Whether this process has closed the group.
    public var isClosed: Bool { view.is_closed() }

    /// The links to the other ranks, in rank order.
    public var links: [LinkInfo] {
        view.links().map { parts in
            LinkInfo(
                peer: Int(parts.peer()), kind: LinkKind(number: parts.kind()) ?? .other,
                detail: parts.detail().toString(), bytesSent: parts.bytes_sent(),
                bytesReceived: parts.bytes_received(), messagesSent: parts.messages_sent(),
                messagesReceived: parts.messages_received())
        }
    }

    /// The last operations of this group, oldest first.
    public var flightRecorder: [Record] {
        view.records().map { parts in
            let outcome: Record.Outcome =
                switch parts.outcome() {
                case 1: .completed
                case 2: .failed(parts.error()?.toString() ?? "")
                default: .running
                }
            return Record(
                call: Call(parts.call()), peer: parts.peer().map { Int($0) }, tag: parts.tag(),
                algorithm: parts.algorithm().flatMap { Algorithm(rawValue: $0.toString()) },
                began: .nanoseconds(parts.began()), took: .nanoseconds(parts.took()),
                outcome: outcome)
        }
    }

    /// The algorithm that an operation on `bytes` bytes (of one rank's contribution, or of one block
    /// for operations that cut a buffer) would take.
    public func algorithm(for operation: Operation, bytes: Int) -> Algorithm? {
        Algorithm(
            rawValue: view.algorithm_for(operation.rawValue, UInt64(clamping: bytes)).toString())
    }

    /// The version of the library.
    public static var libraryVersion: String { version_text().toString() }
}
