// swift-tools-version: 6.0
import PackageDescription

// `tools/build-library` puts the static library and the generated sources in their places: run
// `make swift` in the folder above before `swift build`. For Apple platforms
// `tools/build-xcframework` makes the binary target; see README.md.

#if os(Linux)
let library: [Target] = [
    .target(
        name: "CLycaon",
        linkerSettings: [
            .unsafeFlags(["-L\(Context.packageDirectory)/Artifacts"]),
            .linkedLibrary("lycaon_swift"),
        ])
]
#else
let library: [Target] = [
    .target(name: "CLycaon", dependencies: ["LycaonLibrary"]),
    .binaryTarget(name: "LycaonLibrary", path: "Artifacts/Lycaon.xcframework"),
]
#endif

let package = Package(
    name: "Lycaon",
    platforms: [.macOS(.v14), .iOS(.v17)],
    products: [
        .library(name: "Lycaon", targets: ["Lycaon"])
    ],
    targets: library + [
        // The generated half of the bridge. Nothing of it is public: `Lycaon` imports it internally.
        .target(name: "LycaonBridge", dependencies: ["CLycaon"]),
        .target(name: "Lycaon", dependencies: ["LycaonBridge", "CLycaon"]),
        // The program that the tests start as the ranks of a group.
        .executableTarget(name: "lycaon-rank", dependencies: ["Lycaon"], path: "Tests/Rank"),
        .testTarget(name: "LycaonTests", dependencies: ["Lycaon", "LycaonBridge", "lycaon-rank"]),
        .executableTarget(
            name: "lycaon-overhead", dependencies: ["Lycaon"], path: "Benchmarks/Overhead"),
    ],
    swiftLanguageModes: [.v6]
)
