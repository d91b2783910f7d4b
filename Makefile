# Every target sets up what it needs by itself: a Python of 3.11 or newer, make, git and a package index are enough.
PYTHON ?= python3
FOR ?=
BIN := .venv/bin
# The environment's own binaries first, whatever else is on PATH; it is made by a Python that is not in it, so that
# one left half made can be made again.
OUTSIDE := $(PATH)
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH :=
export PYTHONHASHSEED ?= 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check bench docs pins clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@PATH="$(OUTSIDE)" $(PYTHON) tools/bootstrap.py

demo: setup  ## changing data through admission into the log, with a live table; FOR=30 ends it after 30 seconds
	@$(BIN)/slackwater demo $(if $(FOR),--for $(FOR))

test: check  ## everything that must hold, in a few minutes
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup

test-all: check  ## the same with thousands of seeds and kill matrices
	@$(BIN)/python -m pytest -m "slow or not slow" --timeout=3600

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
