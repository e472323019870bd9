# Installs, tests, measures and reproduces from a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORES ?= $(shell $(PYTHON) -c "import os; print(len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count())")

# One CPU device a core, one thread a device: XLA's own threads slow it down (docs/explanation/performance.md).
export NPROC := 1
export JAX_NUM_CPU_DEVICES ?= $(CORES)
# Keep compiled programs between processes: the tests' workers share them.
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax
# And bytecode, whatever the caller's environment says: pytest rewrites 250 modules.
unexport PYTHONDONTWRITEBYTECODE

# The paper's experiments: runs per cell, and the folder of finished blocks, tables and figures.
RUNS ?= 100
RESULTS ?= results
TABLES := table1 table3 table4
FIGURES := figure1_left figure1_middle figure1_right

.PHONY: bench gpu-check docs release-check demo test test-slow test-x64 check format clean install reproduce two_dimensional $(TABLES) $(FIGURES)

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'jaxelim needs Python 3.11 or newer; say make PYTHON=/path/to/python3.11')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@

DOCS := $(VENV)/.docs-installed
$(DOCS): $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	touch $@

demo: install
	$(BIN)/python -m experiments.demo

$(TABLES) $(FIGURES): install
	$(BIN)/python -m experiments $@ --runs $(RUNS) --output $(RESULTS)

two_dimensional: install
	$(BIN)/python -m experiments two_dimensional --runs $(RUNS) --results $(RESULTS) \
		--output $(RESULTS)/two_dimensional

# One target at a time, whatever -j says: each uses all cores. A stopped job resumes.
reproduce: install
	for one in $(TABLES) $(FIGURES) two_dimensional; do $(MAKE) --no-print-directory -j1 $$one || exit 1; done

PYTEST := env -u XLA_FLAGS $(BIN)/python -m pytest -n $(CORES) --dist loadgroup --durations=10

# Keep small programs too: the workers, and the next call, share them.
test test-slow test-x64: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.2
test test-slow test-x64: export JAX_NUM_CPU_DEVICES := 1

test: install check
	$(PYTEST) -m "not slow" tests

test-x64: install
	JAX_ENABLE_X64=1 $(PYTEST) -m "not slow" tests/faces/test_public_face.py

# The rest, in one go.
test-slow: install
	$(PYTEST) -m "slow and not devices" tests
	JAX_NUM_CPU_DEVICES=2 $(PYTEST) -m devices tests

# Run on an idle machine; BENCH=--quick takes a minute or two.
# docs/explanation/performance.md explains the figures.
bench: install
	$(BIN)/python -m benchmarks $(BENCH)

# The runs of a GPU against a CPU's, and its times, within nine minutes; without a GPU the same
# on the CPU, at small sizes. CHECK has its words. docs/how-to/gpus.md: without an installation.
gpu-check: install
	$(BIN)/python -m benchmarks.gpu_check $(CHECK)

check: install
	$(BIN)/ruff check jaxelim experiments examples tests benchmarks docs/*.py .ci
	$(BIN)/pyright --pythonpath $(BIN)/python jaxelim

# The site, in build/docs/html: offline, warnings are errors, notebooks run once for each content.
docs: $(DOCS)
	$(BIN)/python -m sphinx -W --keep-going -q -d build/docs/doctrees docs build/docs/html
	@echo "build/docs/html/index.html"

# Build the distributions, and try the wheel outside the tree.
release-check: install
	$(BIN)/python -m pip install --quiet -e ".[release]"
	$(BIN)/python .ci/release_check.py

format: install
	$(BIN)/ruff check --fix jaxelim experiments examples tests benchmarks docs/*.py .ci
	$(BIN)/ruff format jaxelim experiments examples tests benchmarks docs/*.py .ci

clean:
	rm -rf $(VENV) .venv-* .cache build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
