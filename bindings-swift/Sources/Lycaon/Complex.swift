/// A real type of which complex numbers can be sent: `Float` and `Double`.
public protocol LycaonReal: BinaryFloatingPoint, BitwiseCopyable, Sendable {
    /// The element type of ``Complex`` numbers of this type.
    static var complexDataType: DataType { get }
}

extension Float: LycaonReal {
    @inlinable
    public static var complexDataType: DataType { .complex64 }
}

extension Double: LycaonReal {
    @inlinable
    public static var complexDataType: DataType { .complex128 }
}

/// A complex number: real part, then imaginary part, as in C, Fortran and NumPy.
public struct Complex<Real: LycaonReal>: Sendable, Hashable, BitwiseCopyable {
    /// The real part.
    public var real: Real
    /// The imaginary part.
    public var imaginary: Real

    /// The number `real + i·imaginary`.
    @inlinable
    public init(_ real: Real, _ imaginary: Real = 0) {
        self.real = real
        self.imaginary = imaginary
    }

    /// Zero.
    @inlinable
    public static var zero: Self { Self(0, 0) }

    /// The sum.
    @inlinable
    public static func + (left: Self, right: Self) -> Self {
        Self(left.real + right.real, left.imaginary + right.imaginary)
    }

    /// The difference.
    @inlinable
    public static func - (left: Self, right: Self) -> Self {
        Self(left.real - right.real, left.imaginary - right.imaginary)
    }

    /// The product.
    @inlinable
    public static func * (left: Self, right: Self) -> Self {
        Self(
            left.real * right.real - left.imaginary * right.imaginary,
            left.real * right.imaginary + left.imaginary * right.real)
    }
}

extension Complex: CustomStringConvertible {
    public var description: String { "(\(real), \(imaginary))" }
}
