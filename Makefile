# Every target sets up what it needs in .venv: nothing is assumed but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.PHONY: setup demo test check lint types rooms docs bench faults clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Karat needs Python 3.11 or newer: make PYTHON=python3.12 setup")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/karat demo

# The same examples every time; `pytest` alone tries new ones.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 -m 'not slow' --hypothesis-seed=0

# What CI runs.
check: lint types rooms test docs

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks

types: $(STAMP)
	$(BIN)/mypy

rooms: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	$(BIN)/mkdocs build --strict --quiet --site-dir build/site

# Side by side with peers, three rounds in turns; writes docs/benchmarks.md. An hour or so; not part of check.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/run.py

# Kills, full disks, damaged files, bad input, a cluster that loses nodes; counted at the end. Not part of check.
faults: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[faults]'
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/faults tests/engine/test_ray.py

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
