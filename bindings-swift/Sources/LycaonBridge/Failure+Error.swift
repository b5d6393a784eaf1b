// The classes that the bridge generates cannot say that they are safe to share.

/// A failure never changes and the Rust type behind it is `Send` and `Sync`, which its source
/// asserts.
extension Failure: Error, @unchecked Sendable {}
