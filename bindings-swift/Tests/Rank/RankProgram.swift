import Foundation
import Lycaon

/// One rank of the tests: the scenario is the argument.
@main
struct RankProgram {
    static func main() async {
        let scenario = CommandLine.arguments.dropFirst().first ?? ""
        do throws(LycaonError) {
            let group = try await Group.initialize()
            try await run(scenario, group)
            print("rank \(group.rank) of \(group.size): \(checks) checks")
        } catch {
            fail("\(scenario): \(error)")
        }
    }

    static func run(_ scenario: String, _ group: Group) async throws(LycaonError) {
        switch scenario {
        case "matrix": try matrix(group)
        case "data": try await Bytes(group: group).run()
        case "waiting": try await Waiting(group: group).operations()
        case "cancellation": try await Waiting(group: group).cancellation()
        case "deadlines": try await Waiting(group: group).deadlines()
        case "pool": try await Waiting(group: group).pool()
        case "death": try await Faults(group: group).death()
        case "deadline": try await Faults(group: group).deadline()
        case "mismatch": try await Faults(group: group).mismatch()
        case "departure": try await Faults(group: group).departure()
        case "closing": try await Faults(group: group).closing()
        case "no-copy": try await Memory(group: group).noCopy()
        case "leaks": try leaks(group)
        case "leaks-of-errors": try await Memory(group: group).leaksOfErrors()
        default: fail("no scenario has the name \(scenario)")
        }
    }

    // Not async, so that the blocking forms are meant.

    static func matrix(_ group: Group) throws(LycaonError) {
        try Matrix(group: group).run()
    }

    static func leaks(_ group: Group) throws(LycaonError) {
        try Memory(group: group).leaks()
    }
}
