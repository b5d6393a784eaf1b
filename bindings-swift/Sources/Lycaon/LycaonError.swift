import Foundation

/// Everything that can go wrong. The family says what state is left behind.
///
/// ```swift
/// do {
///     try group.allReduce(&gradients, .sum)
/// } catch .operation(let failure) {
///     if case .rankDied(let rank, _) = failure.cause { print("rank \(rank) is gone") }
/// } catch {
///     print(error.message)
/// }
/// ```
public indirect enum LycaonError: Error, Sendable, Hashable {
    /// The call makes no sense. Nothing was sent, and the group goes on.
    case argument(ArgumentProblem, message: String)
    /// The environment, a hostfile or a ``Configuration`` is wrong.
    case configuration(ConfigurationProblem, message: String)
    /// The group could not be formed.
    case start(StartProblem, message: String)
    /// An operation failed. The group is poisoned: every later call throws the first cause at once.
    case operation(OperationFailure)
    /// The task was cancelled while it waited. The group is as it was.
    ///
    /// Where `called` is true the operation goes on in the background, as the other ranks count
    /// on it; its result is dropped. Where it is false the operation was not called on this rank.
    case cancelled(called: Bool)
    /// The task waited as long as its `timeout` allowed. The operation goes on in the background
    /// and the group is as it was; the deadline of the operation itself is ``Group/timeout``.
    case timedOut(after: Duration)
    /// A bug of the library that was caught before it could do harm.
    case `internal`(message: String)
}

extension LycaonError: CustomStringConvertible, LocalizedError {
    /// What happened, where, and how to put it right.
    public var message: String {
        switch self {
        case .argument(_, let message), .configuration(_, let message), .start(_, let message),
            .internal(let message):
            message
        case .operation(let failure): failure.message
        case .cancelled(called: true):
            "the task was cancelled; the operation goes on in the background"
        case .cancelled(called: false):
            "the task was cancelled before the operation was called"
        case .timedOut(let duration):
            "the operation did not end within \(duration); it goes on in the background"
        }
    }

    public var description: String { message }

    public var errorDescription: String? { message }
}

/// What is wrong with a call.
public enum ArgumentProblem: Sendable, Hashable {
    /// The operator is not defined for the element type.
    case unsupported(op: ReduceOperator, dataType: DataType)
    /// No element type has this name.
    case unknownDataType(name: String)
    /// No operator has this name.
    case unknownOperator(name: String)
    /// A rank that is not in the group; `what` says what it was given as: `root`, `destination`,
    /// `source`.
    case noSuchRank(what: String, rank: Int, size: Int)
    /// A message to oneself.
    case selfMessage(what: String, rank: Int)
    /// A buffer has the wrong length.
    case length(what: String, expected: UInt64, actual: UInt64)
    /// A buffer's bytes are no whole number of elements.
    case ragged(what: String, bytes: UInt64, dataType: DataType)
    /// A buffer cannot be cut into equal blocks.
    case indivisible(what: String, count: UInt64, size: Int)
    /// A list of counts has not one entry per rank.
    case counts(what: String, actual: Int, size: Int)
    /// Input and output overlap without being the same buffer.
    case overlap
    /// A buffer that this rank has to give is missing.
    case missingBuffer(rank: Int, what: String)
    /// A buffer was given that this rank has no use for.
    case unusedBuffer(rank: Int, what: String)
    /// A number of elements that no memory can hold.
    case tooLarge(what: String)
    /// A collective was asked for with something that is none.
    case notACollective(operation: Operation)
    /// Counts by rank in a form that the operation does not have.
    case countsForm(operation: Operation, takes: String, given: String)
    /// A reduction without an operator.
    case missingOperator(operation: Operation)
    /// An operator for an operation that does not reduce.
    case unusedOperator(operation: Operation, op: ReduceOperator)
    /// A count, rank, tag or duration below zero or beyond its range.
    case outOfRange(what: String, value: Int)
}

/// What is wrong with a configuration.
public enum ConfigurationProblem: Sendable, Hashable {
    /// A value is not what it must be.
    case value(name: String, value: String, expected: String)
    /// A variable is missing while others of its family are set.
    case missing(missing: String, present: String)
    /// Two values contradict each other.
    case conflict(first: String, second: String, why: String)
    /// A file could not be read.
    case file(path: String, reason: String)
    /// A file's content is wrong.
    case content(path: String, place: String, reason: String)
    /// Without a token only this machine may take part.
    case tokenNeeded(address: String)
}

/// Why a group could not be formed.
public enum StartProblem: Sendable, Hashable {
    /// The start-up deadline passed.
    case deadline(rank: Int, within: Duration, waitingFor: String)
    /// The rendezvous address could not be listened on or reached.
    case unreachable(
        rank: Int, action: String, address: String, local: String, tried: Duration, reason: String)
    /// One side does not know the job's token.
    case authentication(rank: Int, peer: String)
    /// Two ranks differ in something that must be equal.
    case disagreement(
        what: String, first: Int, firstValue: String, second: Int, secondValue: String)
    /// Two processes claim one rank.
    case duplicateRank(rank: Int, first: String, second: String)
    /// A rank failed or went away while the group was forming.
    case rankFailed(rank: Int, reason: String)
    /// No link that both sides accept joins two ranks.
    case noLink(first: Int, second: Int, reason: String)
    /// The operating system refused something.
    case system(rank: Int, action: String, reason: String)
    /// The program's own all-gather function failed.
    case sideChannel(rank: Int, reason: String)
    /// The wait was interrupted by the program.
    case interrupted(rank: Int)
}

/// An operation that failed.
public struct OperationFailure: Sendable, Hashable {
    /// This rank, in the group of the operation.
    public var rank: Int
    /// The operation that failed here; `nil` if the call was refused because the group had failed
    /// before.
    public var call: Call?
    /// The rank of the group that was waited for, if it was one.
    public var peer: Int?
    /// The link to it.
    public var link: LinkKind?
    /// How long the operation had run.
    public var elapsed: Duration
    /// What went wrong first, anywhere in the group.
    public var cause: Cause
    /// All of it in words.
    public var message: String

    /// A failure with these parts.
    public init(
        rank: Int, call: Call?, peer: Int?, link: LinkKind?, elapsed: Duration, cause: Cause,
        message: String
    ) {
        self.rank = rank
        self.call = call
        self.peer = peer
        self.link = link
        self.elapsed = elapsed
        self.cause = cause
        self.message = message
    }
}

/// What went wrong first. It travels to every rank; the ranks in it are those of the whole job.
public enum Cause: Sendable, Hashable {
    /// A process ended without closing its group.
    case rankDied(rank: Int, how: String)
    /// A rank closed the group while others still needed it.
    case rankLeft(rank: Int)
    /// A link broke while both processes live.
    case linkLost(first: Int, second: Int, link: LinkKind, reason: String)
    /// Nothing moved for as long as the deadline allows.
    case deadline(rank: Int, call: Call, peer: Int?, waited: Duration)
    /// Two ranks called different things at the same place of the order.
    case mismatch(first: Int, firstCall: Call, second: Int, secondCall: Call)
    /// The program asked for an end of waiting.
    case interrupted(rank: Int, call: Call)
    /// This process closed the group itself.
    case closed
    /// This process is a fork of the one that owns the group.
    case forked(owner: UInt32)
    /// A peer sent what the protocol does not allow.
    case protocolViolation(rank: Int, peer: Int, what: String)
    /// One of the library's own threads panicked: a bug to report.
    case panicked(rank: Int, message: String)
}
