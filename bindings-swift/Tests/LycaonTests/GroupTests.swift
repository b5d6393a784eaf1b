import Foundation
import Testing

@testable import Lycaon

/// What one process can see of groups: those of one, configurations, arguments.
struct GroupTests {
    func single() throws(LycaonError) -> Group { try Group(configuration: Configuration()) }

    @Test("a group of one has every operation")
    func one() throws {
        let group = try single()
        #expect(group.rank == 0 && group.size == 1 && group.members == [0])
        var values: [Float] = [1, 2, 3]
        try group.allReduce(&values, .sum)
        try group.broadcast(&values)
        try group.scan(&values, .max)
        try group.reduce(&values, .product)
        #expect(values == [1, 2, 3])
        #expect(try group.allGather(values) == values)
        #expect(try group.reduceScatter(values, .sum) == values)
        #expect(try group.gather(values) == values)
        #expect(try group.scatter(values, count: 3) == values)
        #expect(try group.allToAll(values) == values)
        try group.barrier()
        let part = try group.split(color: 5)
        #expect(part.size == 1)
        let none: Group? = try group.split(color: nil)
        #expect(none == nil)
    }

    @Test("async forms of a group of one")
    func oneAsync() async throws {
        let group = try await Group(configuration: Configuration())
        #expect(try await group.allReduce([1, 2], .sum) == [1, 2])
        try await group.barrier()
        let work = group.background.allGather([Int8(4)])
        #expect(try await work.value == [4])
        #expect(try await work.value == [4], "a value may be asked for again")
        #expect(work.hasEnded)
    }

    @Test("without a launcher the environment is that of a group of one")
    func environment() async throws {
        let group = try await Group.initialize()
        #expect(group.size == 1)
    }

    @Test("waiting with a blocked thread")
    func blocking() throws {
        let group = try single()
        #expect(try group.background.allReduce([2.5], .sum).wait() == [2.5])
    }

    /// The error of a call.
    func error(_ call: () throws -> Void) -> LycaonError? {
        do { try call() } catch { return error as? LycaonError }
        return nil
    }

    @Test("wrong arguments are errors that say what is wrong, and the group goes on")
    func arguments() throws {
        let group = try single()
        var values: [Float] = [1, 2, 3]
        #expect(
            error { try group.allReduce(&values, .bitwiseAnd) }
                == .argument(
                    .unsupported(op: .bitwiseAnd, dataType: .float32),
                    message: "band is not defined for f32; it needs integers or bool"))
        for root in [-1, 1] {
            let found = error { try group.broadcast(&values, root: root) }
            guard case .argument(.noSuchRank(what: "root", rank: root, size: 1), let text) = found
            else { Issue.record("\(String(describing: found))"); continue }
            #expect(text == "root \(root) is not in the group, whose ranks are 0 to 0")
        }
        guard case .argument(.noSuchRank, _)? = error({ try group.send(values, to: 3) }) else {
            Issue.record("a message to nobody")
            return
        }
        guard case .argument(.selfMessage, _)? = error({ try group.send(values, to: 0) }) else {
            Issue.record("a message to oneself")
            return
        }
        guard
            case .argument(.outOfRange(what: "count", value: -2), _)? = error({
                _ = try group.receive(Int.self, count: -2, from: 0)
            })
        else {
            Issue.record("a negative count")
            return
        }
        guard
            case .argument(.tooLarge, _)? = error({
                _ = try group.receive(Int.self, count: .max, from: 0)
            })
        else {
            Issue.record("a count that no memory holds")
            return
        }
        guard
            case .argument(.counts(what: "counts", actual: 2, size: 1), _)? = error({
                _ = try group.reduceScatter(values, .sum, counts: [1, 2])
            })
        else {
            Issue.record("counts for another size")
            return
        }
        guard case .argument(.missingBuffer, _)? = error({ _ = try group.scatter(nil as [Int]?, count: 1) })
        else {
            Issue.record("a root without input")
            return
        }
        guard case .argument(.outOfRange(what: "color", value: -1), _)? = error({
            _ = try group.split(color: -1)
        }) else {
            Issue.record("a negative colour")
            return
        }
        let short = UnsafeMutableBufferPointer<Float>.allocate(capacity: 2)
        defer { short.deallocate() }
        let found = error {
            try values.withUnsafeBufferPointer { try group.allReduce($0, into: short, .sum) }
        }
        guard case .argument(.length(_, expected: 3, actual: 2), _)? = found else {
            Issue.record("buffers of two lengths: \(String(describing: found))")
            return
        }
        try group.allReduce(&values, .sum)
    }

    @Test("what could not be called in the background is an error of its work")
    func backgroundArguments() async throws {
        let group = try single()
        func check<Value>(_ work: Work<Value>, _ expected: ArgumentProblem) async {
            do throws(LycaonError) {
                _ = try await work.value
                Issue.record("no error in place of \(expected)")
            } catch {
                guard case .argument(expected, _) = error else {
                    Issue.record("\(error) in place of \(expected)")
                    return
                }
            }
        }
        let background = group.background
        await check(
            background.send([1], to: 3), .noSuchRank(what: "destination", rank: 3, size: 1))
        await check(
            background.receive(Int.self, count: 2, from: -1),
            .noSuchRank(what: "source", rank: -1, size: 1))
        await check(
            background.receive(Int.self, count: -2, from: 0), .outOfRange(what: "count", value: -2))
        await check(
            background.receiveData(count: .max, from: 0, as: Float.self), .tooLarge(what: "output"))
        await check(
            background.reduceScatter([1, 2], .sum, counts: [1, 1]),
            .counts(what: "counts", actual: 2, size: 1))
        try await group.barrier()
    }

    @Test("configurations are checked, and say what is wrong")
    func configurations() {
        func problem(_ change: (inout Configuration) -> Void) -> ConfigurationProblem? {
            var configuration = Configuration()
            change(&configuration)
            do throws(LycaonError) { try configuration.validate() } catch {
                if case .configuration(let problem, let message) = error, !message.isEmpty {
                    return problem
                }
            }
            return nil
        }
        #expect(problem { _ in } == nil)
        #expect(
            problem { $0.rank = 3; $0.size = 3 }
                == .conflict(first: "rank=3", second: "size=3", why: "ranks go from 0 to size - 1"))
        #expect(problem { $0.rank = 1 } == .missing(missing: "size", present: "rank=1"))
        #expect(
            problem {
                $0.rank = 0
                $0.size = 2
                $0.rendezvous = .tcp(host: "10.0.0.1", port: 4000)
            } == .tokenNeeded(address: "10.0.0.1:4000"))
        for wrong in [-1, 0, 65] {
            guard case .value(name: "rails", value: "\(wrong)", _)? = problem({ $0.rails = wrong })
            else { Issue.record("\(wrong) rails"); continue }
        }
        guard case .value(name: "timeout", _, _)? = problem({ $0.timeout = .seconds(-1) }) else {
            Issue.record("a negative timeout")
            return
        }
        guard case .value(name: "links", _, _)? = problem({ $0.links = [.memory] }) else {
            Issue.record("links of memory")
            return
        }
        #expect(
            problem {
                $0.rank = 0
                $0.size = 2
                $0.rendezvous = .file(path: "/tmp/somewhere")
                $0.token = "secret"
                $0.job = "job"
                $0.startTimeout = .seconds(3)
                $0.timeout = .milliseconds(5)
                $0.links = [.tcp, .sharedMemory]
                $0.rails = 2
                $0.hostID = "host"
                $0.interfaces = ["127.0.0.1", "lo"]
                $0.algorithm = .ring
                $0.algorithms = [.broadcast: .logarithmic]
                $0.rankOrder = true
                $0.spin = .microseconds(10)
                $0.staging = 1 << 20
                $0.recorder = 8
                $0.liveness = .seconds(1)
            } == nil)
    }

    @Test("a token does not show")
    func secrets() {
        var configuration = Configuration(rank: 0, size: 2)
        configuration.token = "hush-hush"
        #expect(!"\(configuration)".contains("hush") && "\(configuration)".contains("<secret>"))
        #expect(!String(reflecting: configuration).contains("hush"))
        var text = ""
        dump(configuration, to: &text)
        #expect(!text.contains("hush"))
    }

    @Test("a group that does not form within its deadline is an error that says who is missing")
    func startDeadline() async throws {
        var configuration = Configuration(rank: 0, size: 2)
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("lycaon-swift-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        configuration.rendezvous = .file(path: path)
        configuration.token = "token"
        configuration.startTimeout = .milliseconds(300)
        let began = ContinuousClock.now
        do throws(LycaonError) {
            _ = try await Group(configuration: configuration)
            Issue.record("a group of two was formed by one")
        } catch {
            guard case .start(.deadline(rank: 0, within: .milliseconds(300), let who), _) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(who.contains("1"))
        }
        #expect(ContinuousClock.now - began < .seconds(10))
    }

    @Test("starting can be cancelled")
    func cancelledStart() async throws {
        var configuration = Configuration(rank: 0, size: 2)
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("lycaon-swift-\(UUID().uuidString)").path
        configuration.rendezvous = .file(path: path)
        configuration.token = "token"
        configuration.startTimeout = .seconds(2)
        let task = Task { [configuration] in try await Group(configuration: configuration) }
        try await Task.sleep(for: .milliseconds(100))
        let began = ContinuousClock.now
        task.cancel()
        let result = await task.result
        #expect(throws: LycaonError.cancelled(called: true)) { try result.get() }
        #expect(ContinuousClock.now - began < .seconds(1))
        // The start itself ends by its own deadline; the file goes with it.
        try await Task.sleep(for: .seconds(3))
        try? FileManager.default.removeItem(atPath: path)
    }

    @Test("the flight recorder and the counters")
    func trace() throws {
        let group = try single()
        var values: [UInt16] = [7, 8]
        try group.allReduce(&values, .max)
        try group.barrier()
        let records = group.flightRecorder
        #expect(records.map(\.call.operation) == [.allReduce, .barrier])
        #expect(records.allSatisfy { $0.outcome == .completed })
        #expect(records[0].call.dataType == .uint16 && records[0].call.op == .max)
        #expect(records[0].call.count == 2 && records[0].call.sequence < records[1].call.sequence)
        #expect(group.progress.completed == 2 && group.progress.failed == 0)
        #expect(group.links.isEmpty && group.failure == nil)
        try group.setTimeout(.seconds(3))
        #expect(group.timeout == .seconds(3))
        #expect(throws: LycaonError.self) { try group.setTimeout(.zero) }
        #expect(Group.libraryVersion.split(separator: ".").count == 3)
    }

    @Test("a closed group says so")
    func closed() throws {
        let group = try single()
        #expect(!group.isClosed && group.failure == nil)
        group.close()
        group.close()
        guard case .operation(let failure)? = error({ try group.barrier() }) else {
            Issue.record("a closed group works")
            return
        }
        #expect(failure.cause == .closed && failure.call == nil)
        #expect(group.isClosed && group.failure == failure)
    }

    @Test("bytes other than 0 and 1 become true")
    func bools() throws {
        let group = try single()
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 4, alignment: 1)
        defer { bytes.deallocate() }
        bytes.copyBytes(from: [0, 1, 2, 255])
        try group.broadcast(bytes.bindMemory(to: Bool.self))
        #expect(Array(bytes) == [0, 1, 1, 1])
    }

    @Test("ten thousand groups of one leave nothing behind")
    func cycles() throws {
        func cycle() throws {
            let group = try single()
            var values = [1, 2, 3]
            try group.allReduce(&values, .sum)
        }
        func resident() -> Int {
            let fields = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
            return Int(fields.split(separator: " ").dropFirst().first ?? "") ?? 0
        }
        for _ in 0..<2_000 { try cycle() }
        let before = resident()
        for _ in 0..<10_000 { try cycle() }
        // In pages. Other tests run at the same time; a leak of a group is a thousand pages.
        #expect(resident() - before < 2_000)
    }
}
