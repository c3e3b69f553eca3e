# `make test` and `make demo` need nothing but Python ≥ 3.11 and a network: the environment in .venv makes itself.
PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# One BLAS thread per process: the test workers and JAX's own pool already fill the cores.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help test test-long test-extras demo docs bench clean
.DELETE_ON_ERROR:

help:
	@echo "make test         lint, types, import direction, tests"
	@echo "make test-long    the slow statistical tests"
	@echo "make test-extras  the tests that need other packages (CoolProp, Cantera, NeuralFoil, BoTorch, GPJax, Xopt: gigabytes), in .venv-extras"
	@echo "make demo         two surrogates learn a function from 50 runs of their choice; pages and a picture go to out/"
	@echo "make docs         the documentation as a site, strictly and without a network: site/index.html"
	@echo "make bench        speed and accuracy figures"
	@echo "make clean        remove caches, build products and out/; keeps .venv"

# Stamps, so that pip runs only when the requirements changed. `make demo` installs without the developers' tools.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -e . -c constraints.txt
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -e '.[dev]' -c constraints.txt
	@touch $(VENV)/.installed $@

# A file stays on one worker, for its fixtures; in the order given, or xdist would leave files with few, long tests to the end.
test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-long: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -q -n $(WORKERS) -m long

# Apart from .venv, because torch is large. What is missing here is a failure, not a skip.
test-extras:
	$(PYTHON) -m venv .venv-extras
	.venv-extras/bin/python -m pip --disable-pip-version-check --no-input install --quiet -e '.[dev,tasks,rivals,gpytorch,gpjax,gest]' xopt \
		-c constraints.txt
	HYPERLEAF_EXPECT=botorch,cantera,CoolProp,gest_api,gpjax,gpytorch,neuralfoil,tinygp,xopt .venv-extras/bin/python -m pytest -q \
		tests/unit/test_bench_systems.py tests/unit/test_rivals.py tests/compliance/test_posteriors.py tests/adapters \
		tests/unit/test_docs.py -k "not docs or frameworks"

demo: $(VENV)/.installed
	$(BIN)/python -m hyperleaf.cli demo --out out
	@echo "Done: see out/"

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet -e '.[docs]' -c constraints.txt
	@touch $(VENV)/.installed $@

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Done: see site/index.html"

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf build dist out site .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis .jax_cache
	find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
