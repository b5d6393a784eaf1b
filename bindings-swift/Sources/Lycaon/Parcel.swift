import Foundation

/// What a message carries that is under way in the background: memory that the library alone touches
/// until the end.
///
/// An array lends its memory for the time of a call only; that is why these messages are copied.
final class Parcel: @unchecked Sendable {
    let bytes: UnsafeMutableRawBufferPointer

    /// Room for a message.
    init(count: Int) {
        bytes = .allocate(byteCount: count, alignment: 16)
    }

    convenience init<T: LycaonElement>(_ values: [T]) {
        self.init(count: values.count * MemoryLayout<T>.stride)
        values.withUnsafeBytes { bytes.copyMemory(from: $0) }
    }

    convenience init(_ data: Data) {
        self.init(count: data.count)
        data.withUnsafeBytes { bytes.copyMemory(from: $0) }
    }

    deinit {
        bytes.deallocate()
    }

    /// What has arrived.
    func array<T: LycaonElement>(of type: T.Type) -> [T] {
        let count = bytes.count / MemoryLayout<T>.stride
        return [T](unsafeUninitializedCapacity: count) { memory, initialized in
            UnsafeMutableRawBufferPointer(memory).copyMemory(from: UnsafeRawBufferPointer(bytes))
            initialized = count
        }
    }

    /// What has arrived, without a copy.
    func data() -> Data {
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return Data() }
        return Data(
            bytesNoCopy: base, count: bytes.count,
            deallocator: .custom { _, _ in withExtendedLifetime(self) {} })
    }
}
