PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup demo test check docs-check bench clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: .venv/.ready  ## make .venv and install everything from constraints.txt

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "LiteBERT needs Python 3.11 or newer; run make PYTHON=python3.11 setup")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch .venv/.ready

demo: setup  ## an ALBERT, a BERT of the same shape, a task and a page: 5 minutes on 2 cores, and 1 to install
	$(BIN)/python examples/first_model.py

test: setup  ## the whole test suite
	$(BIN)/python -m pytest

check: setup  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs-check: setup  ## run every command of README and docs, and see that the reference is current
	$(BIN)/python -m pytest tests/test_readme.py tests/test_results.py tests/test_devices.py tests/test_benchmarks.py tests/test_options.py

bench: setup  ## a training step beside transformers, as in docs/results.md (about 8 minutes)
	$(BIN)/python benchmarks/train_step.py

clean:  ## remove .venv and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
