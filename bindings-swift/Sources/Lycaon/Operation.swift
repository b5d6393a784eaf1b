/// The operations of a group, as errors and the flight recorder name them.
public enum Operation: UInt8, Sendable, Hashable, CaseIterable {
    /// Every rank gets the reduction of all contributions.
    case allReduce = 0
    /// Every rank gets the contributions of all ranks, in rank order.
    case allGather = 1
    /// Rank `i` gets block `i` of the reduction of all contributions.
    case reduceScatter = 2
    /// Every rank gets the root's buffer.
    case broadcast = 3
    /// The root gets the reduction of all contributions.
    case reduce = 4
    /// The root gets the contributions of all ranks, in rank order.
    case gather = 5
    /// Rank `i` gets block `i` of the root's buffer.
    case scatter = 6
    /// Rank `i` gets block `i` of every rank's buffer, in rank order.
    case allToAll = 7
    /// Rank `i` gets the reduction of the contributions of ranks 0 to `i`.
    case scan = 8
    /// Nobody returns before everybody has called.
    case barrier = 9
    /// A message to one rank.
    case send = 10
    /// A message from one rank.
    case receive = 11
    /// A message to one rank and a message from one rank at the same time.
    case sendReceive = 12
    /// Sub-groups are formed.
    case split = 13
}

extension Operation: CustomStringConvertible {
    /// The name that messages and the other languages use, for example `all_reduce`.
    public var description: String {
        switch self {
        case .allReduce: "all_reduce"
        case .allGather: "all_gather"
        case .reduceScatter: "reduce_scatter"
        case .broadcast: "broadcast"
        case .reduce: "reduce"
        case .gather: "gather"
        case .scatter: "scatter"
        case .allToAll: "all_to_all"
        case .scan: "scan"
        case .barrier: "barrier"
        case .send: "send"
        case .receive: "recv"
        case .sendReceive: "send_recv"
        case .split: "split"
        }
    }
}

/// What one rank has called: the part of an operation that all ranks must agree on.
public struct Call: Sendable, Hashable {
    /// The operation.
    public var operation: Operation
    /// Its number in the group; of a message, on its tag between its two ranks.
    public var sequence: UInt64
    /// The element type.
    public var dataType: DataType
    /// The operator of a reduction.
    public var op: ReduceOperator?
    /// The root of a rooted operation.
    public var root: Int?
    /// Elements: of one rank's contribution, or of one block for operations that cut a buffer.
    public var count: UInt64
    /// All of it as messages show it, for example `all_reduce #41 (f32 × 1024, sum)`.
    public var description: String

    /// A call with these parts.
    public init(
        operation: Operation, sequence: UInt64, dataType: DataType, op: ReduceOperator? = nil,
        root: Int? = nil, count: UInt64, description: String
    ) {
        self.operation = operation
        self.sequence = sequence
        self.dataType = dataType
        self.op = op
        self.root = root
        self.count = count
        self.description = description
    }
}

extension Call: CustomStringConvertible {}

/// What joins one pair of ranks.
public enum LinkKind: UInt8, Sendable, Hashable {
    /// Threads of one process.
    case memory = 1
    /// Shared memory of one host.
    case sharedMemory = 2
    /// TCP sockets.
    case tcp = 3
    /// A kind that this version has no name for.
    case other = 255
}

extension LinkKind: CustomStringConvertible {
    /// The name that messages and the other languages use, for example `shm`.
    public var description: String {
        switch self {
        case .memory: "memory"
        case .sharedMemory: "shm"
        case .tcp: "tcp"
        case .other: "other"
        }
    }
}

/// How a collective is carried out.
public enum Algorithm: String, Sendable, Hashable, CaseIterable {
    /// Everybody sends to everybody (or to and from the root) at once: one step.
    case direct
    /// Reduce-scatter, then all-gather: two steps, the fewest possible bytes.
    case twoStep = "two-step"
    /// Neighbours in a ring; the fewest possible bytes, one link in use at a time.
    case ring
    /// About log₂(size) steps: recursive doubling, dissemination or a binomial tree.
    case logarithmic = "log"
    /// Through memory that all ranks see.
    case arena
}
