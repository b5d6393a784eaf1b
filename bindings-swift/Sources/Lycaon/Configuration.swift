internal import LycaonBridge

/// What a rank must know to join its group.
///
/// What is `nil` has its default, or with ``environment`` what the environment says.
///
/// ```swift
/// var configuration = Configuration(rank: 1, size: 2)
/// configuration.rendezvous = .tcp(host: "10.0.0.1", port: 4000)
/// configuration.token = secret
/// let group = try Group(configuration: configuration)
/// ```
public struct Configuration: Sendable, Hashable {
    /// Takes what is not set here from the environment: `LYCAON_*`, else the variables of other
    /// launchers.
    public var readsEnvironment = false
    /// This process: 0, 1, …
    public var rank: Int?
    /// The number of processes.
    public var size: Int?
    /// Where the ranks find one another; needed above size 1.
    public var rendezvous: Rendezvous?
    /// The secret that all ranks share; needed if the rendezvous is not on loopback.
    public var token: String?
    /// A name that keeps jobs apart.
    public var job: String?
    /// How long forming the group may take; 60 s by default.
    public var startTimeout: Duration?
    /// How long an operation waits while nothing moves before it fails; 30 s by default.
    public var timeout: Duration?
    /// The kinds of link that may be used, the preferred one first.
    public var links: [LinkKind]?
    /// TCP sockets per link, 1 to 64.
    public var rails: Int?
    /// A name for this host; ranks with different names share no memory.
    public var hostID: String?
    /// Local addresses or names of interfaces that data may use; all by default.
    public var interfaces: [String]?
    /// The algorithm of every operation that has none of its own in ``algorithms``.
    public var algorithm: Algorithm?
    /// Algorithms by operation.
    public var algorithms: [Operation: Algorithm] = [:]
    /// Whether only algorithms that sum in rank order may be used.
    public var rankOrder: Bool?
    /// How long a wait polls before it sleeps in the kernel.
    public var spin: Duration?
    /// Upper bound of the staging memory of this rank, in bytes.
    public var staging: Int?
    /// Operations that the flight recorder keeps per group.
    public var recorder: Int?
    /// Interval of the keep-alive on the control connection.
    public var liveness: Duration?

    /// A configuration by hand. Without rank and size it is that of a group of one.
    public init(rank: Int? = nil, size: Int? = nil) {
        self.rank = rank
        self.size = size
    }

    /// What the environment of this process says; single values can be replaced.
    public static var environment: Configuration {
        var configuration = Configuration()
        configuration.readsEnvironment = true
        return configuration
    }

    /// Checks everything without starting.
    public func validate() throws(LycaonError) {
        if let failure = try setup().check() {
            throw LycaonError(failure)
        }
    }

    func setup() throws(LycaonError) -> Setup {
        let setup = readsEnvironment ? try Self.ofEnvironment() : setup_by_hand()
        if let rank { setup.rank(try natural("rank", rank)) }
        if let size { setup.size(try natural("size", size)) }
        rendezvous?.apply(to: setup)
        if let token { setup.token(token) }
        if let job { setup.job(job) }
        if let startTimeout { setup.start_timeout(try nanoseconds("start timeout", startTimeout)) }
        if let timeout { setup.timeout(try nanoseconds("timeout", timeout)) }
        if let liveness { setup.liveness(try nanoseconds("liveness", liveness)) }
        if let spin { setup.spin(try nanoseconds("spin", spin)) }
        for link in links ?? [] { setup.link(link.rawValue) }
        if let rails { setup.rails(try natural("rails", rails)) }
        if let hostID { setup.host_id(hostID) }
        for interface in interfaces ?? [] { setup.interface(interface) }
        if let algorithm { setup.algorithm(nil, algorithm.rawValue) }
        for (operation, algorithm) in algorithms {
            setup.algorithm(operation.rawValue, algorithm.rawValue)
        }
        if let rankOrder { setup.rank_order(rankOrder) }
        if let staging { setup.staging(try natural("staging", staging)) }
        if let recorder { setup.recorder(try natural("recorder", recorder)) }
        return setup
    }

    private static func ofEnvironment() throws(LycaonError) -> Setup {
        do {
            return try setup_from_environment()
        } catch {
            throw LycaonError(bridged: error)
        }
    }
}

/// The token is a secret and does not show.
extension Configuration: CustomStringConvertible, CustomReflectable {
    public var description: String {
        let fields = customMirror.children.map { "\($0.label ?? ""): \($0.value)" }
        return "Configuration(\(fields.joined(separator: ", ")))"
    }

    public var customMirror: Mirror {
        var fields: [(String, Any)] = [("readsEnvironment", readsEnvironment)]
        func add<T>(_ name: String, _ value: T?) {
            if let value { fields.append((name, value)) }
        }
        add("rank", rank)
        add("size", size)
        add("rendezvous", rendezvous)
        add("token", token.map { _ in "<secret>" })
        add("job", job)
        add("startTimeout", startTimeout)
        add("timeout", timeout)
        add("links", links)
        add("rails", rails)
        add("hostID", hostID)
        add("interfaces", interfaces)
        add("algorithm", algorithm)
        if !algorithms.isEmpty { fields.append(("algorithms", algorithms)) }
        add("rankOrder", rankOrder)
        add("spin", spin)
        add("staging", staging)
        add("recorder", recorder)
        add("liveness", liveness)
        return Mirror(self, children: fields.map { (label: $0.0, value: $0.1) }, displayStyle: .struct)
    }
}

extension LycaonError {
    /// What a function of the bridge has thrown.
    init(bridged error: any Error) {
        guard let failure = error as? Failure else {
            self = .internal(message: "the bridge threw \(error); this is a bug to report")
            return
        }
        self.init(failure)
    }
}

private func natural(_ name: String, _ value: Int) throws(LycaonError) -> UInt64 {
    guard let natural = UInt64(exactly: value) else {
        throw .configuration(
            .value(name: name, value: "\(value)", expected: "a number from 0"),
            message: "\(name)=\(value) is not a number from 0")
    }
    return natural
}

private func nanoseconds(_ name: String, _ duration: Duration) throws(LycaonError) -> UInt64 {
    guard let nanoseconds = duration.nanoseconds else {
        throw .configuration(
            .value(name: name, value: "\(duration)", expected: "a duration of at most 100 days"),
            message: "\(name)=\(duration) is not a duration of at most 100 days")
    }
    return nanoseconds
}

extension Duration {
    /// Whole nanoseconds; `nil` below zero and beyond 64 bits.
    var nanoseconds: UInt64? {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return nil }
        let (scaled, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return nil }
        let (sum, carry) = scaled.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000))
        return carry ? nil : sum
    }
}
