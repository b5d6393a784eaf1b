/// The type of one element of a buffer.
///
/// The numbers are part of the ABI and of the wire protocol: they are never reused.
public enum DataType: UInt8, Sendable, Hashable, CaseIterable {
    /// One byte, 0 or 1.
    case bool = 0
    /// Signed 8-bit integer.
    case int8 = 1
    /// Signed 16-bit integer.
    case int16 = 2
    /// Signed 32-bit integer.
    case int32 = 3
    /// Signed 64-bit integer.
    case int64 = 4
    /// Unsigned 8-bit integer.
    case uint8 = 5
    /// Unsigned 16-bit integer.
    case uint16 = 6
    /// Unsigned 32-bit integer.
    case uint32 = 7
    /// Unsigned 64-bit integer.
    case uint64 = 8
    /// IEEE 754 binary16. Sums and products are accumulated in `Float` and rounded once.
    case float16 = 9
    /// bfloat16. Sums and products are accumulated in `Float` and rounded once.
    case bfloat16 = 10
    /// IEEE 754 binary32.
    case float32 = 11
    /// IEEE 754 binary64.
    case float64 = 12
    /// Two `Float`: real and imaginary part.
    case complex64 = 13
    /// Two `Double`: real and imaginary part.
    case complex128 = 14

    /// Bytes of one element.
    public var size: Int {
        switch self {
        case .bool, .int8, .uint8: 1
        case .int16, .uint16, .float16, .bfloat16: 2
        case .int32, .uint32, .float32: 4
        case .int64, .uint64, .float64, .complex64: 8
        case .complex128: 16
        }
    }
}

extension DataType: CustomStringConvertible {
    /// The short name that messages and the other languages use, for example `bf16`.
    public var description: String {
        switch self {
        case .bool: "bool"
        case .int8: "i8"
        case .int16: "i16"
        case .int32: "i32"
        case .int64: "i64"
        case .uint8: "u8"
        case .uint16: "u16"
        case .uint32: "u32"
        case .uint64: "u64"
        case .float16: "f16"
        case .bfloat16: "bf16"
        case .float32: "f32"
        case .float64: "f64"
        case .complex64: "complex64"
        case .complex128: "complex128"
        }
    }
}
