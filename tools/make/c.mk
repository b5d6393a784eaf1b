# The C ABI. Its tests are Rust tests that compile C and C++ programs; what they need besides cargo is
# installed here.

.PHONY: c-tools header header-check test-c test-install install bench-overhead c-docs

CHECKS += header-check c-docs
TESTS += test-install

# gcc, clang and valgrind compile and watch the programs of bindings-c/tests/c; cmake and pkg-config build
# against the installed library.
c-tools:
	@missing=; for tool in gcc g++ clang valgrind nm readelf cmake pkg-config; do \
		command -v $$tool >/dev/null || missing=yes; \
	done; \
	if [ -n "$$missing" ]; then \
		set -x; apt-get update -q && apt-get install -q -y --no-install-recommends \
			gcc g++ clang valgrind binutils libc6-dbg cmake make pkg-config; \
	fi

rust-test: c-tools

# Writes bindings-c/include/lycaon/lycaon.h anew from the sources.
header:
	LYCAON_WRITE_HEADER=1 $(CARGO) test --quiet --package lycaon-c --test header

header-check:
	$(CARGO) test --quiet --package lycaon-c --test header

# The reference of lycaon.h and lycaon.hpp in target/doxygen/html; whatever has no comment is an error.
c-docs:
	@command -v doxygen >/dev/null || { set -x; apt-get update -q && apt-get install -q -y --no-install-recommends doxygen; }
	@mkdir -p target
	doxygen bindings-c/Doxyfile

test-c: c-tools
	$(CARGO) test --package lycaon-c

# Library, headers, CMake package and pkg-config file below PREFIX.
PREFIX ?= /usr/local

install:
	cmake -S bindings-c -B target/install -DLYCAON_TARGET_DIR=$(abspath target)
	cmake --build target/install
	cmake --install target/install --prefix $(PREFIX)

test-install: c-tools build
	bindings-c/tests/install/run $(LYCAON) target

# What a call through C and through C++ costs more than the same call from Rust.
bench-overhead: c-tools
	$(CARGO) bench --package lycaon-c --bench overhead
