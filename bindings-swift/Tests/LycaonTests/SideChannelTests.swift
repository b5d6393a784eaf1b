import Foundation
import Lycaon
import Testing

/// Groups that form through a function of the program.
struct SideChannelTests {
    /// An all-gather between the threads of this process.
    final class Exchange: @unchecked Sendable {
        private let condition = NSCondition()
        private var given: [Int: Data] = [:]

        func allGather(_ mine: Data, _ rank: Int, _ size: Int) -> [Data] {
            condition.lock()
            defer { condition.unlock() }
            given[rank] = mine
            condition.broadcast()
            while given.count < size { condition.wait() }
            return (0..<size).map { given[$0] ?? Data() }
        }
    }

    struct NoAnswer: Error, CustomStringConvertible {
        var description: String { "nobody answers" }
    }

    func configuration(_ rank: Int, _ size: Int, _ channel: SideChannel) -> Configuration {
        var configuration = Configuration(rank: rank, size: size)
        configuration.rendezvous = .sideChannel(channel)
        configuration.token = "token"
        configuration.startTimeout = .seconds(20)
        return configuration
    }

    @Test("a group forms through the program's own exchange", .timeLimit(.minutes(1)))
    func forms() async throws {
        let exchange = Exchange()
        let channel = SideChannel { exchange.allGather($0, $1, $2) }
        let sums = try await withThrowingTaskGroup(of: [Int].self) { tasks in
            for rank in 0..<3 {
                let configuration = configuration(rank, 3, channel)
                tasks.addTask {
                    let group = try await Group(configuration: configuration)
                    let sum = try await group.allReduce([rank + 1, 10 * rank], .sum)
                    try await group.barrier()
                    return sum
                }
            }
            return try await tasks.reduce(into: []) { $0.append($1) }
        }
        #expect(sums == [[6, 30], [6, 30], [6, 30]])
    }

    @Test("its error is the error of the start", .timeLimit(.minutes(1)))
    func refuses() async {
        let channel = SideChannel { _, _, _ in throw NoAnswer() }
        do throws(LycaonError) {
            _ = try await Group(configuration: configuration(0, 2, channel))
            Issue.record("a group formed without an exchange")
        } catch {
            guard case .start(.sideChannel(rank: 0, let reason), _) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(reason.contains("nobody answers"))
        }
    }

    @Test("it is released with its configuration", .timeLimit(.minutes(1)))
    func released() throws {
        weak var channel: SideChannel?
        do {
            let strong = SideChannel { _, _, _ in throw NoAnswer() }
            channel = strong
            try configuration(0, 2, strong).validate()
        }
        #expect(channel == nil)
    }
}
