# RDMA: the transport over real verbs, in a virtual machine with soft-RoCE devices, and the code for
# macOS, which is type-checked here.

.PHONY: test-rdma check-macos rdma-docs

CHECKS += check-macos rdma-docs
TESTS  += test-rdma

# ONLY="UC  mesh" runs the rows that contain this text. BREAK=gid and BREAK=flush break something on
# purpose: the run must fail then.
RDMA_BUILT := $(or $(CARGO_TARGET_DIR),target)/release
RDMA_ARGS  := $(if $(ONLY),--only '$(ONLY)') $(if $(BREAK),--break $(BREAK))

test-rdma: build
	tools/rdma-vm/vm.py --cables 8 --deadline 1800 --silence 900 \
		--program $(RDMA_BUILT)/rdma-suite --program $(RDMA_BUILT)/lycaon -- "rdma-suite $(RDMA_ARGS)"

check-macos:
	tools/macos-check

# The error texts, variables and pictures of docs/rdma.md.
rdma-docs:
	$(PYTHON) docs/check_rdma.py
