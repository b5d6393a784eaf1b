# The C ABI. Its tests are Rust tests that compile C and C++ programs; what they need besides cargo is
# installed here.

.PHONY: c-tools header header-check test-c

CHECKS += header-check

# gcc, clang and valgrind compile and watch the programs of bindings-c/tests/c.
c-tools:
	@missing=; for tool in gcc g++ clang valgrind nm readelf; do \
		command -v $$tool >/dev/null || missing=yes; \
	done; \
	if [ -n "$$missing" ]; then \
		set -x; apt-get update -q && apt-get install -q -y --no-install-recommends \
			gcc g++ clang valgrind binutils libc6-dbg; \
	fi

rust-test: c-tools

# Writes bindings-c/include/lycaon/lycaon.h anew from the sources.
header:
	LYCAON_WRITE_HEADER=1 $(CARGO) test --quiet --package lycaon-c --test header

header-check:
	$(CARGO) test --quiet --package lycaon-c --test header

test-c: c-tools
	$(CARGO) test --package lycaon-c
