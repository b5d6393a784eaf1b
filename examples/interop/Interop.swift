// A rank of a group whose ranks are written in different languages; see README.md.

import Lycaon

/// What a rank has at a place. Divided by 7, so that the order of a sum shows in its bits.
func value(_ rank: Int, _ at: Int) -> Float {
    Float((at * 37 + rank * 101) % 1009) / 7
}

func values(_ rank: Int, _ count: Int) -> [Float] {
    (0..<count).map { value(rank, $0) }
}

/// FNV-1a.
func checksum<T: BitwiseCopyable>(_ data: [T]) -> String {
    var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    data.withUnsafeBytes { bytes in
        for byte in bytes { digest = (digest ^ UInt64(byte)) &* 0x0100_0000_01b3 }
    }
    let digits = String(digest, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
}

func ring(_ group: Group) async throws -> String {
    let after = (group.rank + 1) % group.size
    let before = (group.rank + group.size - 1) % group.size
    let mine = values(group.rank, 1000)
    let got = try await group.sendReceive(mine, to: after, receiving: 1000, from: before, tag: 1)
    let everybody = try await group.allGather(zip(mine, got).map { $0 + $1 })

    var baton = [Float](repeating: 0, count: 4)
    if group.rank > 0 {
        baton = try await group.receive(count: 4, from: before, tag: 2)
    }
    for at in baton.indices { baton[at] += value(group.rank, at) }
    try await group.send(baton, to: after, tag: 2)
    if group.rank == 0 {
        baton = try await group.receive(count: 4, from: before, tag: 2)
    }
    return checksum(everybody + (try await group.broadcast(baton)))
}

func split(_ group: Group) async throws -> String {
    let part = try await group.split(color: group.rank % 2, key: -group.rank)
    let sum = try await part.allReduce(values(group.rank, 100), .sum)
    return checksum(try await group.allGather(sum + [Float(part.rank), Float(part.size)]))
}

@main
struct Interop {
    static func main() async throws {
        let group = try await Group.initialize()
        let sum = try await group.allReduce(values(group.rank, 5000), .sum)
        let thirds = try await group.allGather(
            (0..<3).map { Double(value(group.rank, $0)) / 3 })
        let around = try await ring(group)
        let parts = try await split(group)
        print(
            "rank \(group.rank) Swift all_reduce \(checksum(sum)) all_gather \(checksum(thirds)) "
                + "ring \(around) split \(parts)")
    }
}
