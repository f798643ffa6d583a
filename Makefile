# Everything runs in .venv, which the first target makes. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := PYTHONWARNINGS=ignore .venv/bin/python -m pip -qq

# The newest Python on PATH that is at least 3.11 and really starts (a version manager's stub may be on PATH and not start).
FIND_PYTHON = for name in $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python; do \
	"$$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$name"; break; }; done

KERNELS := $(wildcard format/tsdb_format/kernels/*.py tsdb/exec/kernels/*.py)

.PHONY: help demo test soak lint types format bench peers tsbs vectors rates stream latest sets warm wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | while IFS=$$'\t' read -r name what; do printf '  make %-8s %s\n' "$$name" "$$what"; done

demo: .venv/installed .venv/kernels ## a guided tour on data recorded and generated here: newest rows, and what was not read
	@$(BIN)/python examples/demo.py

test: .venv/installed-dev .venv/kernels ## all tests, in a process for each processor
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile

soak: .venv/installed-dev .venv/kernels ## long searches for lost or wrong rows: histories, kills, damage, failing disks (SEED=1 searches elsewhere)
	@TSDB_SOAK=1 TSDB_SEED=$(or $(SEED),0) $(BIN)/python -m pytest tests/durability tests/stream/test_latest_property.py tests/stream/test_latest_under_way.py -v

lint: .venv/installed-dev ## style: ruff's rules and its formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: .venv/installed-dev ## types: mypy, strict
	@$(BIN)/mypy

format: .venv/installed-dev ## apply ruff's fixes and formatting
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: .venv/installed-dev .venv/kernels ## micro-benchmarks of the kernels, scans and TopK
	@$(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-columns=min,median,rounds --benchmark-sort=name

peers: .venv/installed .venv/kernels ## the same questions on tsdb and DuckDB, as ratios (FLEETS='A C C-aligned' ROWS=10000000)
	@$(BIN)/python -m benchmarks.peers $(addprefix --fleet ,$(or $(FLEETS),A)) --rows $(or $(ROWS),10000000) $(ARGS)

tsbs: .venv/installed .venv/kernels ## the query types of TSBS on tsdb and DuckDB, as ratios (ARGS='--hosts 400 --hours 36')
	@$(BIN)/python -m benchmarks.tsbs $(ARGS)

vectors: .venv/installed .venv/kernels ## the nearest vectors on tsdb, DuckDB and numpy, as ratios (ROWS=1000000, ARGS='--width 512')
	@$(BIN)/python -m benchmarks.vector --rows $(or $(ROWS),1000000) $(ARGS)

rates: .venv/installed .venv/kernels ## durable commits a second on tsdb, SQLite, DuckDB and ArcticDB, as ratios
	@$(PIP) install '.[rates]' --quiet || echo "ArcticDB cannot be installed here and is left out" >&2
	@$(BIN)/python -m benchmarks.rates $(ARGS)

stream: .venv/installed .venv/kernels ## live queries beside a writer: every row exactly once, and how soon (ARGS='--seconds 60')
	@$(BIN)/python -m benchmarks.stream $(ARGS)

latest: .venv/installed-dev .venv/kernels ## what a live join of one entity's facts reads, with and without key-domain pushdown (ROWS=100000000)
	@$(BIN)/python -m benchmarks.latest_join --rows $(or $(ROWS),10000000) $(ARGS)

sets: .venv/installed .venv/kernels ## multi-queries: shared and empty result sets, against finding them anew and DuckDB's CTEs
	@$(BIN)/python -m benchmarks.result_set $(ARGS)

warm: .venv/installed ## compile all kernels, ahead of time where there is a C compiler
	@$(BIN)/tsdb warm --ahead-of-time

wheel: .venv/installed-dev ## build the wheel into dist/
	@$(PIP) wheel --no-deps --wheel-dir dist .

clean: ## remove .venv and everything that was built
	@rm -rf .venv build dist .benchmarks .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find tsdb format cli tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
	@find tsdb format -name '_compiled*' -delete

# The stamps depend on pyproject.toml only: a second run starts at once, a changed dependency installs again.
.venv/bin/python:
	@python="$$($(FIND_PYTHON))"; \
	[ -n "$$python" ] || { echo "make: found no Python 3.11 or newer on PATH; name one with PYTHON=/path/to/python3" >&2; exit 1; }; \
	echo "Making .venv with $$("$$python" --version)"; \
	"$$python" -m venv .venv >/dev/null 2>&1 || { "$$python" -m venv --without-pip .venv && "$$python" -m pip -qq --python .venv install pip; }

.venv/installed: pyproject.toml hatch_build.py tsdb/version.py | .venv/bin/python
	@echo "Installing tsdb and what it needs into .venv"
	@$(PIP) install --editable '.[native]'
	@touch $@

.venv/installed-dev: pyproject.toml hatch_build.py tsdb/version.py | .venv/bin/python
	@echo "Installing tsdb and its development tools into .venv"
	@$(PIP) install --editable '.[dev]'
	@touch .venv/installed $@

# Compiled again when a kernel's source changes; where there is no C compiler this fills numba's cache instead.
.venv/kernels: $(KERNELS) pyproject.toml | .venv/installed
	@echo "Compiling the kernels"
	@$(BIN)/tsdb warm --ahead-of-time
	@touch $@
