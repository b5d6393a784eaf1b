# The Swift package. `bindings-swift/tools/swift-env` runs commands with the swift of the PATH, or in a
# root with Debian's swiftlang that it installs under target/swift.

.PHONY: swift swift-test test-swift examples-swift test-interop bench-swift swift-docs swift-scripts

TESTS  += test-swift test-interop
CHECKS += swift-scripts

SWIFT_ENV   := bindings-swift/tools/swift-env
# One configuration for everything: the tests move and compare much, and nothing is compiled twice.
SWIFT_FLAGS := -c release -Xswiftc -enable-testing

# Swift's compiler and package manager leave folders behind where they keep temporary files.
swift-test swift-docs examples-swift test-interop bench-swift: \
	export TMPDIR = $(shell mkdir -p target/swift/tmp)$(abspath target/swift/tmp)

swift:
	bindings-swift/tools/build-library --workspace --exclude lycaon-python

test-swift: swift-test swift-docs examples-swift
	rm -rf target/swift/tmp

swift-test: swift
	LYCAON_COMMAND=$(abspath $(LYCAON)) $(SWIFT_ENV) swift test $(SWIFT_FLAGS) --disable-xctest \
		--package-path bindings-swift --scratch-path target/swift/build

# Each rank of an example goes where Swift is; the launcher stays here.
examples-swift: swift
	$(SWIFT_ENV) swift build -c release --package-path examples --scratch-path target/swift/examples
	$(PYTHON) examples/run_swift.py --lycaon $(abspath $(LYCAON)) --enter $(abspath $(SWIFT_ENV)) \
		--programs $(abspath target/swift/examples/release)

# One group of a Rust, a C, a C++, a Python and a Swift rank. The Rust programs are built as those of
# the other examples.
test-interop: swift python c-tools
	$(CARGO) build --release --package lycaon --examples
	$(SWIFT_ENV) swift build -c release --package-path examples --scratch-path target/swift/examples \
		--product interop
	$(VENV_BIN)/python examples/interop/run.py --lycaon $(LYCAON) --rust target/release/examples/interop \
		--swift $(abspath $(SWIFT_ENV)) $(abspath target/swift/examples/release/interop)

# What a call costs over the same call in Rust.
bench-swift: swift
	$(CARGO) build --release --package lycaon-swift --example overhead
	$(SWIFT_ENV) swift build -c release --package-path bindings-swift \
		--scratch-path target/swift/bench --product lycaon-overhead
	bindings-swift/tools/bench-overhead

# The documentation, checked, as a web site under target/swift/docs; from the modules that the tests have
# built, since `swift build` would compile all of them again.
swift-docs: swift-test
	$(SWIFT_ENV) bindings-swift/tools/build-docs target/swift/build target/swift/docs

swift-scripts:
	@command -v shellcheck >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends shellcheck; }
	shellcheck bindings-swift/tools/*
