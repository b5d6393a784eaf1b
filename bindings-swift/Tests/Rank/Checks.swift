import Foundation
import Lycaon

/// How many things were compared.
nonisolated(unsafe) private var compared = 0
private let lock = NSLock()

var checks: Int { lock.withLock { compared } }

/// Says what is wrong and ends this rank with an error.
func fail(_ text: String, file: StaticString = #fileID, line: UInt = #line) -> Never {
    FileHandle.standardError.write(Data("\(file):\(line): \(text)\n".utf8))
    exit(1)
}

func expect(
    _ condition: Bool, _ text: @autoclosure () -> String, file: StaticString = #fileID,
    line: UInt = #line
) {
    lock.withLock { compared += 1 }
    if !condition { fail(text(), file: file, line: line) }
}

func expectEqual<T: Equatable>(
    _ actual: [T], _ expected: [T], _ what: @autoclosure () -> String,
    file: StaticString = #fileID, line: UInt = #line
) {
    lock.withLock { compared += 1 }
    if actual == expected { return }
    let at = zip(actual, expected).enumerated().first { $0.element.0 != $0.element.1 }
    let place = at.map { "[\($0.offset)] is \($0.element.0), not \($0.element.1)" }
    fail(
        "\(what()): \(place ?? "\(actual.count) elements, not \(expected.count)")", file: file,
        line: line)
}

/// The error that a call must throw.
func expectError(
    _ what: String, file: StaticString = #fileID, line: UInt = #line,
    _ call: () throws(LycaonError) -> Void
) -> LycaonError {
    do throws(LycaonError) {
        try call()
    } catch {
        lock.withLock { compared += 1 }
        return error
    }
    fail("\(what): no error", file: file, line: line)
}

func expectError(
    _ what: String, file: StaticString = #fileID, line: UInt = #line,
    _ call: () async throws(LycaonError) -> Void
) async -> LycaonError {
    do throws(LycaonError) {
        try await call()
    } catch {
        lock.withLock { compared += 1 }
        return error
    }
    fail("\(what): no error", file: file, line: line)
}
