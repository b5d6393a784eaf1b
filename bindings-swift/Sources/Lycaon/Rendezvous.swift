import Foundation
internal import CLycaon
internal import LycaonBridge

/// Where the ranks find one another.
public enum Rendezvous: Sendable, Hashable {
    /// Rank 0 listens at this address: an IP address or a host name.
    case tcp(host: String, port: UInt16)
    /// Rank 0 writes its addresses into this file, on a disk that all ranks see.
    case file(path: String)
    /// The program has its own way to exchange a few bytes between all ranks.
    case sideChannel(SideChannel)

    func apply(to setup: Setup) {
        if case .sideChannel(let channel) = self {
            channel.apply(to: setup)
        } else {
            setup.rendezvous(description)
        }
    }
}

extension Rendezvous: CustomStringConvertible {
    /// As in `LYCAON_RENDEZVOUS`.
    public var description: String {
        switch self {
        case .tcp(let host, let port) where host.contains(":"): "[\(host)]:\(port)"
        case .tcp(let host, let port): "\(host):\(port)"
        case .file(let path): "file:\(path)"
        case .sideChannel: "the program's all-gather function"
        }
    }
}

/// An all-gather of the program itself, used while a group forms, in place of an address.
///
/// It is called once on every rank, on the thread that starts the group, and every rank must get the same
/// answer: what all ranks have given, in rank order. An error that it throws ends the start on this rank
/// with ``StartProblem/sideChannel(rank:reason:)``.
public final class SideChannel: Sendable {
    /// What all ranks have given, in rank order.
    public typealias AllGather =
        @Sendable (_ mine: Data, _ rank: Int, _ size: Int) throws -> [Data]

    private let allGather: AllGather

    /// A side channel that calls a closure.
    public init(_ allGather: @escaping AllGather) {
        self.allGather = allGather
    }

    fileprivate func apply(to setup: Setup) {
        let function: LycaonAllGather = { context, rank, size, mine, length, answer in
            guard let context else { return }
            let channel = Unmanaged<SideChannel>.fromOpaque(context).takeUnretainedValue()
            channel.answer(rank, size, UnsafeBufferPointer(start: mine, count: length), answer)
        }
        let release: LycaonRelease = { context in
            if let context { Unmanaged<SideChannel>.fromOpaque(context).release() }
        }
        setup.side_channel(
            unsafeBitCast(function, to: UInt.self), unsafeBitCast(release, to: UInt.self),
            UInt(bitPattern: Unmanaged.passRetained(self).toOpaque()))
    }

    private func answer(
        _ rank: Int, _ size: Int, _ mine: UnsafeBufferPointer<UInt8>, _ answer: UnsafeMutableRawPointer
    ) {
        do {
            for entry in try allGather(Data(mine), rank, size) {
                entry.withUnsafeBytes { bytes in
                    let bytes = bytes.bindMemory(to: UInt8.self)
                    lycaon_swift_gathered(answer, bytes.baseAddress, bytes.count)
                }
            }
        } catch {
            let reason = Array("\(error)".utf8)
            lycaon_swift_refused(answer, reason, reason.count)
        }
    }
}

/// Two side channels are equal if they are the same.
extension SideChannel: Hashable {
    public static func == (left: SideChannel, right: SideChannel) -> Bool { left === right }

    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
