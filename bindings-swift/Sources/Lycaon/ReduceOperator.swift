/// How the contributions of the ranks are combined.
public enum ReduceOperator: UInt8, Sendable, Hashable, CaseIterable {
    /// Sum. Integers wrap; for `Bool` it is logical or.
    case sum = 0
    /// Product. Integers wrap; for `Bool` it is logical and.
    case product = 1
    /// Minimum. NaN propagates; -0 is smaller than +0. Not for complex numbers.
    case min = 2
    /// Maximum. NaN propagates; +0 is larger than -0. Not for complex numbers.
    case max = 3
    /// Sum divided by the number of contributions. Floating-point and complex numbers only.
    case average = 4
    /// Bitwise and. Integers and `Bool`.
    case bitwiseAnd = 5
    /// Bitwise or. Integers and `Bool`.
    case bitwiseOr = 6
    /// Bitwise exclusive or. Integers and `Bool`.
    case bitwiseXor = 7
    /// Logical and: 1 if every contribution is non-zero, else 0. Integers and `Bool`.
    case logicalAnd = 8
    /// Logical or: 1 if any contribution is non-zero, else 0. Integers and `Bool`.
    case logicalOr = 9
}

extension ReduceOperator: CustomStringConvertible {
    /// The name that messages and the other languages use, for example `band`.
    public var description: String {
        switch self {
        case .sum: "sum"
        case .product: "prod"
        case .min: "min"
        case .max: "max"
        case .average: "avg"
        case .bitwiseAnd: "band"
        case .bitwiseOr: "bor"
        case .bitwiseXor: "bxor"
        case .logicalAnd: "land"
        case .logicalOr: "lor"
        }
    }
}
