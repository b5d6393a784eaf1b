// Groups within groups: ranks as a grid whose rows and columns are groups of their own.

import Lycaon

// Ranks in one row of the grid.
let width = 2

@main
struct Split {
    static func main() async throws {
        let group = try await Group.initialize()
        let (row, column) = group.rank.quotientAndRemainder(dividingBy: width)

        // Ranks of one colour form a group; the key says their order in it.
        let across = try await group.split(color: row, key: column)
        let down = try await group.split(color: column, key: row)

        let rowSum = try await across.allReduce([group.rank + 1], .sum)[0]
        let columnSum = try await down.allReduce([group.rank + 1], .sum)[0]

        // A rank may stay out.
        let corner: Group? = try await group.split(color: row == 0 ? 0 : nil)
        let place = corner.map { "is \($0.rank) of \($0.size)" } ?? "stays out"

        print(
            "rank \(group.rank): row \(across.members) sums to \(rowSum), "
                + "column \(down.members) sums to \(columnSum); of the first row it \(place)")
    }
}
