import Foundation
import Testing

/// Starts the ranks of a group as processes, through the program `lycaon`.
struct Launch {
    /// How many ranks.
    var ranks: Int
    /// The links that may be used.
    var links = "shm,tcp"
    /// What the program `lycaon-rank` does.
    var scenario: String
    /// The whole job may take so long.
    var seconds = 90

    struct Outcome {
        var code: Int32
        var output: String

        /// The lines in which ranks say that all of their checks were right.
        var reports: [Substring] {
            output.split(separator: "\n").filter { $0.hasPrefix("rank ") && $0.hasSuffix(" checks") }
        }
    }

    /// The program, from the environment; `make test-swift` sets it.
    static func command() throws -> URL {
        let path = try #require(
            ProcessInfo.processInfo.environment["LYCAON_COMMAND"],
            "LYCAON_COMMAND must name the program lycaon (cargo build --release -p lycaon-cli)")
        try #require(FileManager.default.isExecutableFile(atPath: path), "\(path) is no program")
        return URL(fileURLWithPath: path)
    }

    /// `lycaon-rank`, which is built beside the tests.
    static func rankProgram() throws -> String {
        let here = URL(fileURLWithPath: CommandLine.arguments[0])
        var folder = here.deletingLastPathComponent()
        while folder.path != "/" {
            let program = folder.appendingPathComponent("lycaon-rank")
            if FileManager.default.isExecutableFile(atPath: program.path) { return program.path }
            folder.deleteLastPathComponent()
        }
        throw Missing(text: "no lycaon-rank beside \(here.path)")
    }

    struct Missing: Error {
        var text: String
    }

    func run() throws -> Outcome {
        let process = Process()
        process.executableURL = try Self.command()
        process.arguments = [
            "launch", "-n", "\(ranks)", "--links", links, "--no-tag-output", "--timeout",
            "\(seconds)", "--", try Self.rankProgram(), scenario,
        ]
        // In the tests all ranks share two cores with one another and with other tests.
        var environment = ProcessInfo.processInfo.environment
        for name in environment.keys where name.hasPrefix("LYCAON_") { environment[name] = nil }
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        // The launcher ends all ranks when the time is over, which closes the pipe.
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Outcome(
            code: process.terminationStatus, output: String(decoding: output, as: UTF8.self))
    }
}
