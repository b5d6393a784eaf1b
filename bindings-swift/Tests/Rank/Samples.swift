import Lycaon

/// Values that differ by rank and position, and what reducing them must give.
protocol Sample: LycaonElement, Equatable {
    /// What a rank has at a position.
    static func sample(_ rank: Int, _ index: Int) -> Self
    /// The reduction of one value per rank; `nil` where the operator is not defined.
    static func reference(_ op: ReduceOperator, _ values: [Self]) -> Self?
}

extension FixedWidthInteger where Self: Sample {
    /// All bits are in play, so that sums and products wrap; a third of the values is 0.
    static func sample(_ rank: Int, _ index: Int) -> Self {
        if (index + rank) % 3 == 0 { return 0 }
        let mixed = UInt64(index + 1) &* 0x9e37_79b9_7f4a_7c15 &+ UInt64(rank) &* 0xd1b5_4a32_d192_ed03
        return Self(truncatingIfNeeded: mixed >> 7)
    }

    static func reference(_ op: ReduceOperator, _ values: [Self]) -> Self? {
        switch op {
        case .sum: values.reduce(0, &+)
        case .product: values.reduce(1, &*)
        case .min: values.min()
        case .max: values.max()
        case .average: nil
        case .bitwiseAnd: values.reduce(~0, &)
        case .bitwiseOr: values.reduce(0, |)
        case .bitwiseXor: values.reduce(0, ^)
        case .logicalAnd: values.allSatisfy { $0 != 0 } ? 1 : 0
        case .logicalOr: values.contains { $0 != 0 } ? 1 : 0
        }
    }
}

extension Int8: Sample {}
extension Int16: Sample {}
extension Int32: Sample {}
extension Int64: Sample {}
extension Int: Sample {}
extension UInt8: Sample {}
extension UInt16: Sample {}
extension UInt32: Sample {}
extension UInt64: Sample {}
extension UInt: Sample {}

extension Bool: Sample {
    static func sample(_ rank: Int, _ index: Int) -> Bool { (index * 5 + rank * 3) % 4 < 2 }

    static func reference(_ op: ReduceOperator, _ values: [Bool]) -> Bool? {
        switch op {
        case .sum, .max, .bitwiseOr, .logicalOr: values.contains(true)
        case .product, .min, .bitwiseAnd, .logicalAnd: values.allSatisfy { $0 }
        case .bitwiseXor: values.filter { $0 }.count % 2 == 1
        case .average: nil
        }
    }
}

/// Small whole numbers: every type holds their sums and products exactly, in any order.
func small(_ rank: Int, _ index: Int) -> Double {
    let value = Double((index * 7 + rank * 5) % 3 + 1)
    return (index + rank) % 4 == 0 ? -value : value
}

/// A floating-point type by way of `Double`.
protocol RealSample: Sample {
    init(real: Double)
    var real: Double { get }
}

extension RealSample {
    static func sample(_ rank: Int, _ index: Int) -> Self { Self(real: small(rank, index)) }

    static func reference(_ op: ReduceOperator, _ values: [Self]) -> Self? {
        let reals = values.map(\.real)
        let sum = reals.reduce(0, +)
        return switch op {
        case .sum: Self(real: sum)
        case .product: Self(real: reals.reduce(1, *))
        case .min: reals.min().map(Self.init(real:))
        case .max: reals.max().map(Self.init(real:))
        // As the library: in Float for the short types, rounded once.
        case .average: average(sum, of: values.count)
        case .bitwiseAnd, .bitwiseOr, .bitwiseXor, .logicalAnd, .logicalOr: nil
        }
    }

    static func average(_ sum: Double, of count: Int) -> Self {
        MemoryLayout<Self>.size == 8
            ? Self(real: sum / Double(count)) : Self(real: Double(Float(sum) / Float(count)))
    }
}

// Intel Macs have no Float16.
#if !((os(macOS) || targetEnvironment(macCatalyst)) && arch(x86_64))
extension Float16: RealSample {
    init(real: Double) { self.init(real) }
    var real: Double { Double(self) }
}
#endif

extension BFloat16: RealSample {
    init(real: Double) { self.init(Float(real)) }
    var real: Double { Double(self) }
}

extension Float: RealSample {
    init(real: Double) { self.init(real) }
    var real: Double { Double(self) }
}

extension Double: RealSample {
    init(real: Double) { self = real }
    var real: Double { self }
}

extension Complex: Sample where Real: RealSample {
    static func sample(_ rank: Int, _ index: Int) -> Self {
        Self(Real(real: small(rank, index)), Real(real: small(rank + 1, index + 2)))
    }

    static func reference(_ op: ReduceOperator, _ values: [Self]) -> Self? {
        let sum = values.reduce(.zero, +)
        return switch op {
        case .sum: sum
        case .product: values.reduce(Self(1), *)
        case .average:
            Self(
                Real.average(sum.real.real, of: values.count),
                Real.average(sum.imaginary.real, of: values.count))
        case .min, .max, .bitwiseAnd, .bitwiseOr, .bitwiseXor, .logicalAnd, .logicalOr: nil
        }
    }
}
