import Testing

/// Groups of several processes. One at a time: each of them uses all cores.
@Suite(.serialized)
struct RankTests {
    /// Runs a scenario in which every rank must come to its end.
    func succeed(_ scenario: String, _ ranks: Int, _ links: String) throws {
        let outcome = try Launch(ranks: ranks, links: links, scenario: scenario).run()
        #expect(outcome.code == 0, "\(outcome.output)")
        #expect(outcome.reports.count == ranks, "\(outcome.output)")
    }

    @Test("every operation, element type and operator", arguments: [2, 3, 4], ["shm", "tcp"])
    func matrix(ranks: Int, links: String) throws {
        try succeed("matrix", ranks, links)
    }

    @Test("data, in every form", arguments: [2, 3], ["shm", "tcp"])
    func data(ranks: Int, links: String) throws {
        try succeed("data", ranks, links)
    }

    @Test("async forms, and the order of what is under way", arguments: [2, 3, 4], ["shm", "tcp"])
    func waiting(ranks: Int, links: String) throws {
        try succeed("waiting", ranks, links)
    }

    @Test("cancelling a task that waits", arguments: ["shm", "tcp"])
    func cancellation(links: String) throws {
        try succeed("cancellation", 2, links)
    }

    @Test("a task that waits no longer than it wants to", arguments: ["shm", "tcp"])
    func deadlines(links: String) throws {
        try succeed("deadlines", 2, links)
    }

    @Test("the cooperative pool stays free", arguments: ["shm", "tcp"])
    func pool(links: String) throws {
        try succeed("pool", 2, links)
    }

    @Test("a rank is killed", arguments: [2, 3, 4], ["shm", "tcp"])
    func death(ranks: Int, links: String) throws {
        let outcome = try Launch(ranks: ranks, links: links, scenario: "death").run()
        #expect(outcome.code == 128 + 9, "\(outcome.output)")
        #expect(outcome.reports.count == ranks - 1, "\(outcome.output)")
    }

    @Test("nobody else calls", arguments: ["shm", "tcp"])
    func deadline(links: String) throws {
        try succeed("deadline", 3, links)
    }

    @Test("ranks call different things", arguments: [2, 3], ["shm", "tcp"])
    func mismatch(ranks: Int, links: String) throws {
        try succeed("mismatch", ranks, links)
    }

    @Test("a rank leaves", arguments: ["shm", "tcp"])
    func departure(links: String) throws {
        try succeed("departure", 3, links)
    }

    @Test("closing ends what is under way", arguments: ["shm", "tcp"])
    func closing(links: String) throws {
        try succeed("closing", 2, links)
    }

    @Test("64 MiB are reduced where they are", arguments: ["shm", "tcp"])
    func noCopy(links: String) throws {
        try succeed("no-copy", 2, links)
    }

    @Test("groups leave nothing behind")
    func leaks() throws {
        try succeed("leaks", 2, "tcp")
    }

    @Test("errors and works leave nothing behind", arguments: ["shm", "tcp"])
    func leaksOfErrors(links: String) throws {
        try succeed("leaks-of-errors", 2, links)
    }
}
