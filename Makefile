# Every target sets up what it needs by itself: a Python of 3.11 or newer, make, git and a package index are enough.
PYTHON ?= python3
FOR ?=
SECONDS ?= 600
SEED ?=
# Rooms that decide: no server, no Spark, no bus; without two files of them that take longest. See CONTRIBUTING.md.
QUICK := tests/core tests/sql tests/kernels tests/statistics tests/planning tests/processing tests/hosting tests/sessions \
  tests/admission tests/tools/test_check_house.py tests/dissemination/test_messages.py tests/client/live/test_state.py \
  tests/contracts/test_kinds.py tests/contracts/test_operators.py tests/contracts/test_planners.py src \
  --ignore tests/processing/joined/test_warm_up.py --ignore tests/planning/pulling/test_common_factor.py
BIN := .venv/bin
# The environment's own binaries first, whatever else is on PATH; it is made by a Python that is not in it, so that
# one left half made can be made again.
OUTSIDE := $(PATH)
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH :=
export PYTHONHASHSEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick test-all soak check bench docs pins clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@PATH="$(OUTSIDE)" $(PYTHON) tools/bootstrap.py

demo: setup  ## changing data through admission into the log, with a live table; FOR=30 ends it after 30 seconds
	@$(BIN)/slackwater demo $(if $(FOR),--for $(FOR))

test: check  ## everything that must hold, in a few minutes
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup

test-quick: setup  ## the rooms that decide, without servers, Spark and the bus: in two minutes
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup $(QUICK)

test-all: check  ## the same with hundreds of seeds and kill matrices
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m "slow or not slow" --timeout=3600

soak: setup  ## fresh seeds and kills for SECONDS=600; SEED=n repeats a run
	@$(BIN)/python -m tools.soak --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

check: setup  ## style, types, the order of rooms and the lint of the house
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache > /dev/null || $(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/check_house.py

bench: setup  ## the measured figures, written to benchmarks/results
	@$(BIN)/python -m benchmarks

docs: setup  ## the documentation as pages, in site/
	@$(BIN)/mkdocs build --strict --quiet --site-dir site
	@echo "site/index.html"

pins: setup  ## choose exact versions anew (needs uv)
	@uv pip compile pyproject.toml --extra node --extra spark --group dev --universal --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate --quiet --output-file requirements/dev.txt

clean:  ## remove the environment and everything generated
	@rm -rf .venv site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
