import Dispatch

/// An operation under way. It owns its buffers and gives the result back when it is done.
///
/// ```swift
/// let work = group.background.allReduce(gradients, .sum)
/// computeTheNextLayer()
/// let sum = try await work.value
/// ```
///
/// Dropping a `Work` does not cancel the operation: the other ranks count on it.
public final class Work<Value: Sendable>: Sendable {
    private enum State {
        case running([ObjectIdentifier: Waiter])
        case ended(Result<Value, LycaonError>)
        /// The result was moved out.
        case taken
    }

    private let state = Locked<State>(.running([:]))

    init() {}

    /// Whether the operation has ended, well or not.
    public var hasEnded: Bool {
        state.withLock { state in
            if case .running = state { false } else { true }
        }
    }

    /// The result, as soon as it is there. The thread is free meanwhile, and cancelling the task
    /// ends the wait but not the operation.
    public var value: Value {
        get async throws(LycaonError) { try await value(timeout: nil) }
    }

    /// As ``value``, but waits no longer than `timeout`.
    public func value(timeout: Duration?) async throws(LycaonError) -> Value {
        try await settled(timeout)
        return try result()
    }

    /// Waits for the result and blocks the thread until it is there. The operation's own deadline
    /// bounds the wait.
    @available(*, noasync, message: "await the value instead")
    public func wait() throws(LycaonError) -> Value {
        let waiter = Waiter()
        let semaphore = DispatchSemaphore(value: 0)
        waiter.onEnd { _ in semaphore.signal() }
        enlist(waiter)
        semaphore.wait()
        return try result()
    }

    /// Runs the operation on the thread of its lane.
    func run(_ body: () throws(LycaonError) -> Value) {
        let result = Result(catching: body)
        let waiters = state.withLock { state -> [ObjectIdentifier: Waiter] in
            guard case .running(let waiters) = state else { return [:] }
            state = .ended(result)
            return waiters
        }
        for waiter in waiters.values { waiter.end(.ended) }
    }

    /// Waits for the result and moves it out, so that its memory has one owner.
    func take(timeout: Duration?) async throws(LycaonError) -> Value {
        try await settled(timeout)
        var taken = State.taken
        state.withLock { swap(&$0, &taken) }
        return try Self.result(of: taken)
    }

    private func result() throws(LycaonError) -> Value {
        try Self.result(of: state.withLock { $0 })
    }

    private static func result(of state: State) throws(LycaonError) -> Value {
        switch state {
        case .ended(let result): try result.get()
        case .running, .taken: preconditionFailure("only asked for at the end, and moved out once")
        }
    }

    private func enlist(_ waiter: Waiter) {
        let ended = state.withLock { state -> Bool in
            guard case .running(var waiters) = state else { return true }
            waiters[ObjectIdentifier(waiter)] = waiter
            state = .running(waiters)
            return false
        }
        if ended { waiter.end(.ended) }
    }

    private func strike(_ waiter: Waiter) {
        state.withLock { state in
            guard case .running(var waiters) = state else { return }
            waiters[ObjectIdentifier(waiter)] = nil
            state = .running(waiters)
        }
    }

    /// Returns when the operation has ended; throws when the task gives up before.
    private func settled(_ timeout: Duration?) async throws(LycaonError) {
        if hasEnded { return }
        let waiter = Waiter()
        enlist(waiter)
        defer { strike(waiter) }
        let timer = timeout.map { timeout in
            Task.detached {
                try? await Task.sleep(for: timeout)
                if !Task.isCancelled { waiter.end(.timedOut) }
            }
        }
        defer { timer?.cancel() }
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiter.onEnd { outcome in continuation.resume(returning: outcome) }
            }
        } onCancel: {
            waiter.end(.cancelled)
        }
        switch outcome {
        case .ended: return
        case .cancelled: throw .cancelled(called: true)
        case .timedOut: throw .timedOut(after: timeout ?? .zero)
        }
    }
}

/// One who waits: the first of several ends counts, whether it comes before or after somebody
/// listens.
private final class Waiter: Sendable {
    enum Outcome: Sendable {
        case ended
        case cancelled
        case timedOut
    }

    private enum State {
        case waiting((@Sendable (Outcome) -> Void)?)
        case ended(Outcome)
    }

    private let state = Locked<State>(.waiting(nil))

    func end(_ outcome: Outcome) {
        let listener = state.withLock { state -> (@Sendable (Outcome) -> Void)? in
            guard case .waiting(let listener) = state else { return nil }
            state = .ended(outcome)
            return listener
        }
        listener?(outcome)
    }

    func onEnd(_ listener: @escaping @Sendable (Outcome) -> Void) {
        let outcome = state.withLock { state -> Outcome? in
            if case .ended(let outcome) = state { return outcome }
            state = .waiting(listener)
            return nil
        }
        if let outcome { listener(outcome) }
    }
}
