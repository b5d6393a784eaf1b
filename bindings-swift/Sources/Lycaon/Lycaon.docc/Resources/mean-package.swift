// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "Mean",
    platforms: [.macOS(.v14)],
    dependencies: [.package(path: "../lycaon/bindings-swift")],
    targets: [
        .executableTarget(
            name: "Mean",
            dependencies: [.product(name: "Lycaon", package: "bindings-swift")])
    ]
)
