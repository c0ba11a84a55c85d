# Every target sets up what it needs in .venv: nothing is assumed but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# An index of PyTorch builds to prefer, such as its CPU builds where there is no GPU: they are 4 GB smaller.
TORCH_INDEX ?=
INSTALL := $(BIN)/python -m pip install $(addprefix --extra-index-url ,$(TORCH_INDEX)) --constraint constraints.txt --editable
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.PHONY: setup demo test check lint types rooms docs dist bench faults clean

# All that `make check` needs; demo and test set up less.
setup: $(VENV)/.dev

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Karat needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@echo "Making $(VENV), a virtual environment in this folder ..."
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of packages. What is there already is not fetched again.
$(VENV)/.demo $(VENV)/.test $(VENV)/.dev $(VENV)/.dist $(VENV)/.bench $(VENV)/.faults: $(VENV)/.%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what '$*' needs into $(VENV). The first time, PyTorch and its libraries take minutes to download ..."
	$(INSTALL) '.[$*]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/karat demo

# The same examples every time; `pytest` alone tries new ones. Two processes of one thread each: threads that wait for one
# another on two cores cost more than they bring.
test: $(VENV)/.test
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m 'not slow' --hypothesis-seed=0

# What CI runs.
check: lint types rooms test docs

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/ruff format --check src tests benchmarks tools

types: $(VENV)/.dev
	$(BIN)/mypy

rooms: $(VENV)/.dev
	$(BIN)/lint-imports

docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict --quiet --site-dir build/site

# Builds sdist and wheel into dist/, and tries the wheel without this checkout.
dist: $(VENV)/.dist
	$(BIN)/python tools/dist.py

# Side by side with peers, three rounds in turns; writes docs/benchmarks.md. An hour or so; not part of check.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py

# Kills, full disks, damaged files, bad input, a cluster that loses nodes; counted at the end. Not part of check.
faults: $(VENV)/.faults
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/faults tests/engine/test_ray.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
