import LycaonBridge
import Testing

@testable import Lycaon

/// Every kind of error of the library, as it arrives here.
struct ErrorTableTests {
    static let call = Call(
        operation: .allReduce, sequence: 41, dataType: .float32, op: .sum, count: 1024,
        description: text(of: "mismatch", 0))
    static let secondCall = Call(
        operation: .allGather, sequence: 41, dataType: .int64, count: 8,
        description: text(of: "mismatch", 1))
    static let waited = Duration.milliseconds(1500)

    /// The words for a call are the library's: they are taken from the sample itself.
    static func text(of kind: String, _ which: Int) -> String {
        guard case .Mismatch(_, let first, _, let second)? = sample_failure(kind)?.problem() else {
            return "no sample of \(kind)"
        }
        return (which == 0 ? first : second).text.toString()
    }

    enum Expected: Sendable {
        case argument(ArgumentProblem)
        case configuration(ConfigurationProblem)
        case start(StartProblem)
        case operation(Cause)
    }

    static let table: [String: Expected] = [
        "unsupported": .argument(.unsupported(op: .bitwiseAnd, dataType: .float32)),
        "unknown_dtype": .argument(.unknownDataType(name: "f31")),
        "unknown_op": .argument(.unknownOperator(name: "sun")),
        "no_such_rank": .argument(.noSuchRank(what: "root", rank: 7, size: 3)),
        "self_message": .argument(.selfMessage(what: "destination", rank: 1)),
        "length": .argument(.length(what: "output", expected: 8, actual: 6)),
        "ragged": .argument(.ragged(what: "input", bytes: 7, dataType: .float32)),
        "indivisible": .argument(.indivisible(what: "input", count: 7, size: 3)),
        "counts": .argument(.counts(what: "counts", actual: 2, size: 3)),
        "overlap": .argument(.overlap),
        "missing_buffer": .argument(.missingBuffer(rank: 1, what: "input")),
        "unused_buffer": .argument(.unusedBuffer(rank: 1, what: "output")),
        "too_large": .argument(.tooLarge(what: "output")),
        "not_a_collective": .argument(.notACollective(operation: .send)),
        "counts_form": .argument(
            .countsForm(operation: .barrier, takes: "no counts", given: "All")),
        "missing_op": .argument(.missingOperator(operation: .scan)),
        "unused_op": .argument(.unusedOperator(operation: .broadcast, op: .sum)),

        "value": .configuration(
            .value(name: "LYCAON_RANK", value: "two", expected: "a rank (0, 1, …)")),
        "missing": .configuration(.missing(missing: "LYCAON_SIZE", present: "LYCAON_RANK=1")),
        "conflict": .configuration(
            .conflict(
                first: "LYCAON_RANK=3", second: "LYCAON_SIZE=3", why: "ranks go from 0 to size - 1")),
        "file": .configuration(.file(path: "/hosts.json", reason: "not found")),
        "content": .configuration(
            .content(path: "/hosts.json", place: "line 3", reason: "no address")),
        "token_needed": .configuration(.tokenNeeded(address: "10.0.0.1:4000")),

        "start_deadline": .start(
            .deadline(rank: 1, within: waited, waitingFor: "no word from rank 2")),
        "unreachable": .start(
            .unreachable(
                rank: 1, action: "connect to", address: "10.0.0.1:4000", local: "10.0.0.2 (en5)",
                tried: waited, reason: "no route to host")),
        "authentication": .start(.authentication(rank: 1, peer: "10.0.0.3:5000")),
        "disagreement": .start(
            .disagreement(what: "size", first: 0, firstValue: "3", second: 1, secondValue: "4")),
        "duplicate_rank": .start(
            .duplicateRank(rank: 1, first: "host a, process 1", second: "host b, process 2")),
        "rank_failed": .start(.rankFailed(rank: 2, reason: "out of memory")),
        "no_link": .start(.noLink(first: 1, second: 2, reason: "tcp: refused")),
        "system": .start(
            .system(rank: 1, action: "make shared memory", reason: "too many open files")),
        "side_channel": .start(.sideChannel(rank: 1, reason: "no answer")),
        "start_interrupted": .start(.interrupted(rank: 1)),

        "rank_died": .operation(.rankDied(rank: 2, how: "its connection closed")),
        "rank_left": .operation(.rankLeft(rank: 2)),
        "link_lost": .operation(
            .linkLost(first: 1, second: 2, link: .tcp, reason: "connection reset")),
        "deadline": .operation(.deadline(rank: 1, call: call, peer: 2, waited: waited)),
        "mismatch": .operation(
            .mismatch(first: 0, firstCall: call, second: 1, secondCall: secondCall)),
        "interrupted": .operation(.interrupted(rank: 1, call: call)),
        "closed": .operation(.closed),
        "forked": .operation(.forked(owner: 4711)),
        "protocol": .operation(
            .protocolViolation(rank: 1, peer: 2, what: "a frame of no kind")),
        "panicked": .operation(.panicked(rank: 1, message: "bug")),
    ]

    @Test("the table has every kind, and no other")
    func complete() {
        let names = sample_names()
        let known = (0..<names.len()).compactMap { names.get(index: UInt($0))?.as_str().toString() }
        #expect(Set(known) == Set(Self.table.keys))
        #expect(known.count == Self.table.count)
    }

    @Test("a kind arrives with its fields", arguments: table.keys.sorted())
    func kind(_ name: String) throws {
        let failure = try #require(sample_failure(name))
        let message = failure.message().toString()
        let error = LycaonError(failure)
        #expect(!message.isEmpty && error.message == message && "\(error)" == message)
        #expect(error.localizedDescription == message)
        switch try #require(Self.table[name]) {
        case .argument(let problem): #expect(error == .argument(problem, message: message))
        case .configuration(let problem):
            #expect(error == .configuration(problem, message: message))
        case .start(let problem): #expect(error == .start(problem, message: message))
        case .operation(let cause):
            #expect(
                error
                    == .operation(
                        OperationFailure(
                            rank: 1, call: Self.call, peer: 2, link: .tcp, elapsed: Self.waited,
                            cause: cause, message: message)))
        }
    }

    @Test("what has no name in the library has a message all the same")
    func ownCases() {
        #expect(LycaonError.cancelled(called: true).message.contains("goes on"))
        #expect(LycaonError.cancelled(called: false).message.contains("before"))
        #expect(LycaonError.timedOut(after: .seconds(2)).message.contains("2.0 seconds"))
        #expect(LycaonError.internal(message: "bug").description == "bug")
    }
}
