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

# The fast suite is mostly compiling. LLVM's level 0, XLA's plainer emitter of loops, one LLVM
# module a program, no expensive passes, and none that programs here can spare, more than halve
# it. Tests marked `shipped`, the slow suite and the digests run what ships.
comma := ,
space := $(subst ,, )
PASSES := simplify-while-loops while-loop-invariant-code-motion while-loop-constant-sinking \
	while-loop-trip-count-annotator simplify-conditional simplify-sorts reshape-mover \
	zero_sized_hlo_elimination tree_reduction_rewriter constant_folding cpu-parallel-task-assigner
# A jaxlib from 0.11 on ends the process over the emitter's flag, which it does not know.
EMITTER = $(if $(wildcard $(VENV)/lib/*/site-packages/jaxlib-0.10.*),--xla_cpu_use_fusion_emitters=false)
test test-x64: export XLA_FLAGS ?= --xla_backend_optimization_level=0 \
	$(EMITTER) --xla_cpu_parallel_codegen_split_count=1 \
	--xla_llvm_disable_expensive_passes=true \
	--xla_disable_hlo_passes=$(subst $(space),$(comma),$(strip $(PASSES)))
# Keep small programs too: the workers, and the next call, share them.
test test-x64: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.2

PYTEST := JAX_NUM_CPU_DEVICES=2 $(BIN)/python -m pytest -n $(CORES) --dist loadgroup

test: install check
	env -u XLA_FLAGS $(PYTEST) -m shipped --durations=5 $$(grep -rlw --include='test_*.py' shipped tests)
	$(PYTEST) -m "not slow and not shipped" --durations=10 tests

test-x64: install
	JAX_ENABLE_X64=1 $(PYTEST) -m "not slow" tests/faces/test_public_face.py

# Hours: what is marked slow, as shipped. Some rows start a kernel, of the extra `docs`.
test-slow: $(DOCS)
	env -u XLA_FLAGS $(PYTEST) -m slow --durations=10 tests

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
