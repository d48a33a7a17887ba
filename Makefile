# Every command of the project. `make` alone prints this help.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PLOTTING := $(VENV)/.installed-bench
LIBRARIES := $(VENV)/.installed-ecosystem
SEEDS ?= 1470
CHAOS_SEEDS ?= $(if $(filter command%,$(origin SEEDS)),$(SEEDS),20)
MINUTES ?= 30
# The files with a mark: to collect all others takes longer than many a test.
MARKED = $(sort $(shell grep -rlE --include='test_*.py' 'mark\.$(1)\b' tests))
SOURCES := proto client server worker tests examples
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONUNBUFFERED := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup run test check lint format ci long sim mutants bench bench-quick conformance compat ecosystem chaos fuzz soak clean

help:  ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(STAMP)  ## make .venv with everything that the other commands need (they do it themselves)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Pathways needs Python 3.11 or newer; call make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

$(PLOTTING): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $(PLOTTING)

$(LIBRARIES): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[ecosystem]'
	@touch $(LIBRARIES)

run: $(STAMP)  ## start a cluster of 2 islands x 2 hosts, train on it, compare with local JAX, stop it
	@$(BIN)/python examples/demo.py

test: $(STAMP)  ## what a newcomer runs: every test but the slow ones (about 15 minutes on 2 cores)
	$(BIN)/python -m pytest tests/unit tests/tidy -m 'not slow and not alone and not long' -n 2 --dist loadfile
	$(BIN)/python -m pytest tests -m 'not slow and not alone and not long' --ignore tests/unit --ignore tests/tidy

check: lint  ## the fast half: what lint looks at, and the tidy tests
	$(BIN)/python -m pytest -q tests/tidy

lint: $(STAMP)  ## format, lint, types, layers, generated protos and API document
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python proto/generate.py --check
	$(BIN)/python proto/document.py --check

format: $(STAMP)  ## rewrite the sources in the house format
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

ci: lint $(PLOTTING)  ## what .ci/run runs after `make test`: more seeds, mutants, conformance, libraries, the slow tests
	$(if $(PATHWAYS_SIMULATION_SEEDS),,$(MAKE) --no-print-directory sim SEEDS=$(SEEDS))
	$(MAKE) --no-print-directory mutants
	$(MAKE) --no-print-directory conformance
	$(MAKE) --no-print-directory ecosystem
	$(BIN)/python -m pytest $(call MARKED,alone) -m 'alone and not long'
	$(BIN)/python -m pytest $(call MARKED,waits) -m 'slow and waits and not long' -n 2 --dist loadfile
	$(BIN)/python -m pytest $(call MARKED,slow) -m 'slow and not waits and not long'

long: $(STAMP)  ## the rest, on a machine that does nothing else: 100,000 programs, shares and round trips beside competitors
	$(BIN)/python -m pytest $(call MARKED,long) -m long

sim: $(STAMP)  ## simulate both cores under faults: make sim SEEDS=10000
	PATHWAYS_SIMULATION_SEEDS=$(SEEDS) $(BIN)/python -m pytest -q tests/simulation

mutants: $(STAMP)  ## break the cores on purpose, one way at a time; every break must be caught
	$(BIN)/python tests/mutants/run.py

bench: $(PLOTTING)  ## measure everything beside JAX; writes tables and plots to docs/benchmarks (RAY=1: Ray as well)
	$(BIN)/python tests/benchmarks/run.py $(if $(RAY),--ray)

bench-quick: $(PLOTTING)  ## the same with few samples, in 5 minutes, into build/benchmarks; no verdicts
	$(BIN)/python tests/benchmarks/run.py --quick

conformance: $(STAMP)  ## one small script per feature, on the cluster and on plain local JAX, compared; half of them again over gRPC's own server
	$(BIN)/python tests/conformance/run.py
	$(BIN)/python tests/conformance/run.py --ifrt-transport grpc --half

compat: $(STAMP)  ## the same scripts with every jaxlib that clients may have (VERSIONS="0.8 0.9"), each in its own environment
	$(BIN)/python tests/conformance/compat.py $(VERSIONS)

ecosystem: $(LIBRARIES)  ## Flax, Equinox, Optax, Orbax, NumPyro, Diffrax, Rax and pathwaysutils on the cluster and on plain local JAX, compared
	$(BIN)/python tests/conformance/ecosystem.py

chaos: $(STAMP)  ## every fault in every phase of a program's life, with real processes: hours; make chaos SEEDS=1
	$(BIN)/python tests/chaos/matrix.py --seeds $(CHAOS_SEEDS)

fuzz: $(STAMP)  ## changed messages and programs for MINUTES=30, of fresh randomness; what fails says how to run it again
	$(BIN)/python tests/fuzz/fuzz.py --minutes $(MINUTES)

soak: $(STAMP)  ## train for MINUTES=30 beside a client that comes and goes; memory must not grow
	$(BIN)/python tests/benchmarks/soak.py --minutes $(MINUTES)

clean:  ## remove what the other commands made
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
