# The header that the layouts of the verbs bindings are compared with. Only the tests need it.

.PHONY: verbs-header
verbs-header:
	@echo '#include <infiniband/verbs.h>' | cc -E -x c - -o /dev/null 2>/dev/null \
		|| { apt-get update && apt-get install -y --no-install-recommends libibverbs-dev; }

rust-test: verbs-header
