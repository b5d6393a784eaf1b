internal import LycaonBridge

extension LycaonError {
    init(_ failure: Failure) {
        let message = failure.message().toString()
        func argument(_ problem: ArgumentProblem) -> LycaonError {
            .argument(problem, message: message)
        }
        func configuration(_ problem: ConfigurationProblem) -> LycaonError {
            .configuration(problem, message: message)
        }
        func start(_ problem: StartProblem) -> LycaonError { .start(problem, message: message) }
        func operation(_ cause: Cause) -> LycaonError {
            let place = failure.place()
            return .operation(
                OperationFailure(
                    rank: Int(place?.rank ?? 0), call: failure.call().map(Call.init),
                    peer: (place?.peer).map { Int($0) }, link: place.flatMap { LinkKind(number: $0.link) },
                    elapsed: .nanoseconds(place?.elapsed ?? 0), cause: cause, message: message))
        }
        // Exhaustive: a problem that the bridge gains does not compile here before it has a case.
        self =
            switch failure.problem() {
            case .Unsupported(let op, let dtype):
                argument(.unsupported(op: ReduceOperator(number: op), dataType: DataType(number: dtype)))
            case .UnknownDType(let name): argument(.unknownDataType(name: name.toString()))
            case .UnknownOp(let name): argument(.unknownOperator(name: name.toString()))
            case .NoSuchRank(let what, let rank, let size):
                argument(.noSuchRank(what: what.toString(), rank: Int(clamping: rank), size: Int(size)))
            case .SelfMessage(let what, let rank):
                argument(.selfMessage(what: what.toString(), rank: Int(rank)))
            case .Length(let what, let expected, let actual):
                argument(.length(what: what.toString(), expected: expected, actual: actual))
            case .Ragged(let what, let bytes, let dtype):
                argument(.ragged(what: what.toString(), bytes: bytes, dataType: DataType(number: dtype)))
            case .Indivisible(let what, let count, let size):
                argument(.indivisible(what: what.toString(), count: count, size: Int(size)))
            case .Counts(let what, let actual, let size):
                argument(.counts(what: what.toString(), actual: Int(actual), size: Int(size)))
            case .Overlap: argument(.overlap)
            case .MissingBuffer(let rank, let what):
                argument(.missingBuffer(rank: Int(rank), what: what.toString()))
            case .UnusedBuffer(let rank, let what):
                argument(.unusedBuffer(rank: Int(rank), what: what.toString()))
            case .TooLarge(let what): argument(.tooLarge(what: what.toString()))
            case .NotACollective(let operation):
                argument(.notACollective(operation: Operation(number: operation)))
            case .CountsForm(let operation, let takes, let given):
                argument(
                    .countsForm(
                        operation: Operation(number: operation), takes: takes.toString(),
                        given: given.toString()))
            case .MissingOp(let operation):
                argument(.missingOperator(operation: Operation(number: operation)))
            case .UnusedOp(let operation, let op):
                argument(
                    .unusedOperator(
                        operation: Operation(number: operation), op: ReduceOperator(number: op)))

            case .Value(let name, let value, let expected):
                configuration(
                    .value(
                        name: name.toString(), value: value.toString(), expected: expected.toString()))
            case .Missing(let missing, let present):
                configuration(.missing(missing: missing.toString(), present: present.toString()))
            case .Conflict(let first, let second, let why):
                configuration(
                    .conflict(
                        first: first.toString(), second: second.toString(), why: why.toString()))
            case .File(let path, let reason):
                configuration(.file(path: path.toString(), reason: reason.toString()))
            case .Content(let path, let place, let reason):
                configuration(
                    .content(
                        path: path.toString(), place: place.toString(), reason: reason.toString()))
            case .TokenNeeded(let address):
                configuration(.tokenNeeded(address: address.toString()))

            case .StartDeadline(let rank, let within, let waitingFor):
                start(
                    .deadline(
                        rank: Int(rank), within: .nanoseconds(within),
                        waitingFor: waitingFor.toString()))
            case .Unreachable(let rank, let action, let address, let local, let tried, let reason):
                start(
                    .unreachable(
                        rank: Int(rank), action: action.toString(), address: address.toString(),
                        local: local.toString(), tried: .nanoseconds(tried),
                        reason: reason.toString()))
            case .Authentication(let rank, let peer):
                start(.authentication(rank: Int(rank), peer: peer.toString()))
            case .Disagreement(let what, let first, let firstValue, let second, let secondValue):
                start(
                    .disagreement(
                        what: what.toString(), first: Int(first), firstValue: firstValue.toString(),
                        second: Int(second), secondValue: secondValue.toString()))
            case .DuplicateRank(let rank, let first, let second):
                start(
                    .duplicateRank(
                        rank: Int(rank), first: first.toString(), second: second.toString()))
            case .RankFailed(let rank, let reason):
                start(.rankFailed(rank: Int(rank), reason: reason.toString()))
            case .NoLink(let first, let second, let reason):
                start(.noLink(first: Int(first), second: Int(second), reason: reason.toString()))
            case .System(let rank, let action, let reason):
                start(
                    .system(rank: Int(rank), action: action.toString(), reason: reason.toString()))
            case .SideChannel(let rank, let reason):
                start(.sideChannel(rank: Int(rank), reason: reason.toString()))
            case .StartInterrupted(let rank): start(.interrupted(rank: Int(rank)))

            case .RankDied(let rank, let how):
                operation(.rankDied(rank: Int(rank), how: how.toString()))
            case .RankLeft(let rank): operation(.rankLeft(rank: Int(rank)))
            case .LinkLost(let first, let second, let link, let reason):
                operation(
                    .linkLost(
                        first: Int(first), second: Int(second),
                        link: LinkKind(number: link) ?? .other, reason: reason.toString()))
            case .Deadline(let rank, let call, let peer, let waited):
                operation(
                    .deadline(
                        rank: Int(rank), call: Call(call), peer: peer.map { Int($0) },
                        waited: .nanoseconds(waited)))
            case .Mismatch(let first, let firstCall, let second, let secondCall):
                operation(
                    .mismatch(
                        first: Int(first), firstCall: Call(firstCall), second: Int(second),
                        secondCall: Call(secondCall)))
            case .Interrupted(let rank, let call):
                operation(.interrupted(rank: Int(rank), call: Call(call)))
            case .Closed: operation(.closed)
            case .Forked(let owner): operation(.forked(owner: owner))
            case .Violation(let rank, let peer, let what):
                operation(
                    .protocolViolation(rank: Int(rank), peer: Int(peer), what: what.toString()))
            case .Panicked(let rank, let text):
                operation(.panicked(rank: Int(rank), message: text.toString()))

            case .Internal: .internal(message: message)
            }
    }
}

extension Call {
    init(_ parts: CallParts) {
        self.init(
            operation: Operation(number: parts.operation), sequence: parts.sequence,
            dataType: DataType(number: parts.dtype), op: parts.op.map(ReduceOperator.init(number:)),
            root: parts.root.map { Int($0) }, count: parts.count, description: parts.text.toString())
    }
}

// Both sides of the bridge are built from one tree, so that a number without a case is a bug here;
// `ErrorTableTests` goes through all of them.

extension ReduceOperator {
    init(number: UInt8) {
        guard let known = ReduceOperator(rawValue: number) else {
            preconditionFailure("operator \(number) has no case")
        }
        self = known
    }
}

extension DataType {
    init(number: UInt8) {
        guard let known = DataType(rawValue: number) else {
            preconditionFailure("element type \(number) has no case")
        }
        self = known
    }
}

extension Operation {
    init(number: UInt8) {
        guard let known = Operation(rawValue: number) else {
            preconditionFailure("operation \(number) has no case")
        }
        self = known
    }
}

extension LinkKind {
    /// `nil` for 0, which is no link.
    init?(number: UInt8) {
        guard number != 0 else { return nil }
        self = LinkKind(rawValue: number) ?? .other
    }
}
