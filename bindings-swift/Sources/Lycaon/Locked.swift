import Foundation
internal import CLycaon

/// A value that one thread at a time may touch.
///
/// `Synchronization.Mutex` would need macOS 15.
final class Locked<Value>: @unchecked Sendable {
    private var value: Value
    private let lock = NSLock()

    init(_ value: Value) {
        self.value = value
    }

    func withLock<R>(_ body: (inout Value) -> R) -> R {
        lock.lock()
        defer { lock.unlock() }
        return body(&value)
    }
}

/// A number that threads may read without a lock.
///
/// `Synchronization.Atomic` would need macOS 15.
final class Counter: @unchecked Sendable {
    private let storage: UnsafeMutablePointer<Int64>

    init() {
        storage = .allocate(capacity: 1)
        storage.initialize(to: 0)
    }

    deinit {
        storage.deallocate()
    }

    var value: Int64 { LycaonCounterLoad(storage) }

    func add(_ difference: Int64) {
        LycaonCounterAdd(storage, difference)
    }
}

/// Hands a value to another thread, which is then the only one to touch it.
final class Box<Value>: @unchecked Sendable {
    var value: Value

    init(_ value: consuming Value) {
        self.value = value
    }
}

extension Box {
    /// Takes an array out, so that nothing else holds it and it can be changed without a copy.
    func take<T>() -> [T] where Value == [T] {
        var taken: [T] = []
        swap(&taken, &value)
        return taken
    }

    /// The same for data.
    func take() -> Data where Value == Data {
        var taken = Data()
        swap(&taken, &value)
        return taken
    }
}
