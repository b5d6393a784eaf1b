/// What a buffer may hold: the integers, `Bool`, `Float`, `Double`, `Float16` where the platform has
/// it, ``BFloat16`` and ``Complex``.
///
/// Types of your own do not conform: the library reads and writes the memory of an element as the
/// ``dataType`` that it names. Send what they are made of instead.
public protocol LycaonElement: BitwiseCopyable, Sendable {
    /// The element type of the library with the layout of this type.
    static var dataType: DataType { get }
}

extension Bool: LycaonElement {
    @inlinable
    public static var dataType: DataType { .bool }
}

extension Int8: LycaonElement {
    @inlinable
    public static var dataType: DataType { .int8 }
}

extension Int16: LycaonElement {
    @inlinable
    public static var dataType: DataType { .int16 }
}

extension Int32: LycaonElement {
    @inlinable
    public static var dataType: DataType { .int32 }
}

extension Int64: LycaonElement {
    @inlinable
    public static var dataType: DataType { .int64 }
}

extension UInt8: LycaonElement {
    @inlinable
    public static var dataType: DataType { .uint8 }
}

extension UInt16: LycaonElement {
    @inlinable
    public static var dataType: DataType { .uint16 }
}

extension UInt32: LycaonElement {
    @inlinable
    public static var dataType: DataType { .uint32 }
}

extension UInt64: LycaonElement {
    @inlinable
    public static var dataType: DataType { .uint64 }
}

/// `Int` is sent as the fixed type of its width, so that it meets `Int64` on every machine of today.
extension Int: LycaonElement {
    @inlinable
    public static var dataType: DataType { MemoryLayout<Int>.size == 8 ? .int64 : .int32 }
}

/// `UInt` is sent as the fixed type of its width.
extension UInt: LycaonElement {
    @inlinable
    public static var dataType: DataType { MemoryLayout<UInt>.size == 8 ? .uint64 : .uint32 }
}

// Intel Macs have no Float16.
#if !((os(macOS) || targetEnvironment(macCatalyst)) && arch(x86_64))
extension Float16: LycaonElement {
    @inlinable
    public static var dataType: DataType { .float16 }
}
#endif

extension BFloat16: LycaonElement {
    @inlinable
    public static var dataType: DataType { .bfloat16 }
}

extension Float: LycaonElement {
    @inlinable
    public static var dataType: DataType { .float32 }
}

extension Double: LycaonElement {
    @inlinable
    public static var dataType: DataType { .float64 }
}

extension Complex: LycaonElement {
    @inlinable
    public static var dataType: DataType { Real.complexDataType }
}
