/// A 16-bit floating-point number with the range of `Float` and 8 bits of precision.
///
/// It is for storing and for sending: compute in `Float`.
///
/// ```swift
/// let half = BFloat16(0.5)
/// let values = [Float](…).map(BFloat16.init)
/// ```
public struct BFloat16: Sendable, BitwiseCopyable {
    /// Sign, exponent (8 bits) and significand (7 bits), as the upper half of a `Float`.
    public var bitPattern: UInt16

    /// The number with these bits.
    @inlinable
    public init(bitPattern: UInt16) {
        self.bitPattern = bitPattern
    }

    /// The nearest number; ties go to the even one. NaN stays NaN.
    @inlinable
    public init(_ value: Float) {
        let bits = value.bitPattern
        if value.isNaN {
            // Quiet, so that a payload in the lower half does not end as an infinity.
            bitPattern = UInt16(truncatingIfNeeded: bits >> 16) | 0x0040
        } else {
            let half = 0x7fff + ((bits >> 16) & 1)
            bitPattern = UInt16(truncatingIfNeeded: (bits &+ half) >> 16)
        }
    }

    /// Whether this is not a number.
    @inlinable
    public var isNaN: Bool { Float(self).isNaN }
}

extension Float {
    /// The same number.
    @inlinable
    public init(_ value: BFloat16) {
        self.init(bitPattern: UInt32(value.bitPattern) << 16)
    }
}

extension Double {
    /// The same number.
    @inlinable
    public init(_ value: BFloat16) {
        self.init(Float(value))
    }
}

/// Numbers compare as such: -0 is 0, and NaN is nothing, not even itself.
extension BFloat16: Comparable, Hashable {
    @inlinable
    public static func == (left: Self, right: Self) -> Bool { Float(left) == Float(right) }

    @inlinable
    public static func < (left: Self, right: Self) -> Bool { Float(left) < Float(right) }

    @inlinable
    public func hash(into hasher: inout Hasher) { hasher.combine(Float(self)) }
}

extension BFloat16: ExpressibleByFloatLiteral, ExpressibleByIntegerLiteral {
    @inlinable
    public init(floatLiteral value: Float) { self.init(value) }

    @inlinable
    public init(integerLiteral value: Int32) { self.init(Float(value)) }
}

extension BFloat16: CustomStringConvertible {
    public var description: String { Float(self).description }
}
