# The wheel, the reference of the module, and the module on other versions of Python.

.PHONY: wheel wheel-test python-docs

TESTS += wheel-test python-docs

WHEELS := target/wheels
# The newest CPython 3 that is on this machine, beside the one that everything else uses.
NEWEST = $(shell ls -d $$HOME/.pyenv/versions/3.*/bin/python3.1[2-9] /usr/local/bin/python3.1[2-9] /usr/bin/python3.1[2-9] 2>/dev/null | \
	sed 's/\(.*python3\.\)\([0-9]*\)$$/\2 &/' | sort -n | tail -1 | cut -d' ' -f2)
NEW_VENV := target/venv-newest

# maturin gives the manylinux tag that the symbols allow; auditwheel and abi3audit check both promises.
wheel: $(VENV)/.tools
	rm -rf $(WHEELS)
	PATH="$(abspath $(VENV_BIN)):$$PATH" maturin build --quiet --release --locked --auditwheel check \
		--manifest-path bindings-python/Cargo.toml --out $(WHEELS)
	if [ "$$(uname)" = Linux ]; then \
		$(VENV_BIN)/python -m auditwheel show $(WHEELS)/*.whl | tr '\n' ' ' | grep -o 'platform tag: "manylinux[^"]*"'; \
	fi
	$(VENV_BIN)/abi3audit --strict --summary $(WHEELS)/*.whl

wheel-test: wheel
	rm -rf $(NEW_VENV)
	$(or $(NEWEST),$(PYTHON)) -m venv $(NEW_VENV)
	$(NEW_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c bindings-python/requirements-wheel-test.txt \
		numpy ml_dtypes cloudpickle pytest pytest-timeout $(WHEELS)/*.whl
	$(NEW_VENV)/bin/python --version
	$(NEW_VENV)/bin/python -m pytest -q bindings-python/tests/test_cluster.py bindings-python/tests/test_buffers.py \
		bindings-python/tests/test_async.py

python-docs: python
	$(VENV_BIN)/python -m sphinx -q -W --keep-going -b html docs/api target/python-docs
