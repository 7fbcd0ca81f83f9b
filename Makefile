# The two commands of the README: make demo, make test. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test check format bench clean

help:  ## list what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## create .venv with exact versions and install spherepair into it

# The stamp is written last, so an interrupted install is simply done again.
$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("spherepair needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup  ## pairs, fit with unknown number of clusters, new rows predicted, a picture, a report
	$(BIN)/spherepair demo --out demo-output

# One thread per worker: workers that each use all cores would wait for each other.
test: setup  ## the whole test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal

check: setup  ## formatting, lint, types, layers
	$(BIN)/ruff format --check src tests bench examples
	$(BIN)/ruff check src tests bench examples
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup  ## apply formatting and safe fixes
	$(BIN)/ruff format src tests bench examples
	$(BIN)/ruff check --fix src tests bench examples

bench: setup  ## timings as ratios in one run
	$(BIN)/python bench/run.py

clean:  ## remove what was made
	rm -rf $(VENV) demo-output bench-output dist build
