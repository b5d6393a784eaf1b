// swift-tools-version: 6.0
import Foundation
import PackageDescription

// The examples in Swift. Each folder here holds one concept in several languages: what is not Swift is
// not of this package.

func example(_ name: String) -> Target {
    let folder = "\(Context.packageDirectory)/\(name)"
    let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
    return .executableTarget(
        name: name, dependencies: [.product(name: "Lycaon", package: "bindings-swift")],
        path: name, exclude: files.filter { !$0.hasSuffix(".swift") }.sorted())
}

let package = Package(
    name: "LycaonExamples",
    platforms: [.macOS(.v14)],
    dependencies: [.package(path: "../bindings-swift")],
    targets: [
        example("all_reduce"),
        example("send_recv"),
        example("split"),
        example("async_overlap"),
        example("interop"),
        example("kmeans"),
    ],
    swiftLanguageModes: [.v6]
)
