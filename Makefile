# The two commands of the README: make demo, make test. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check
USER_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
OLDEST := .venv-oldest
NEWEST := .venv-newest
# One worker more than there are cores: some tests wait for a browser or for another process.
WORKERS = $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
# A test that hangs ends its worker with its stack on the screen; the slowest takes a minute on a busy machine.
SUITE = -m pytest -q -n $(WORKERS) --dist worksteal -m "not ray" -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
CODE := src tests bench examples docs .ci

.PHONY: help setup dev demo test test-ray test-gpu test-oldest test-newest fuzz chaos check licenses sbom format page docs bench clean

help:  ## list what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(USER_STAMP)  ## create .venv with what a user needs, in exact versions

dev: $(DEV_STAMP)  ## add what tests, checks and documentation need

# A stamp is written last, so an interrupted install is simply done again.
$(USER_STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("spherepair needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -r requirements.lock
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(DEV_STAMP): $(USER_STAMP) requirements-dev.lock
	$(BIN)/python $(PIP) -r requirements-dev.lock
	@touch $@

demo: setup  ## pairs, fit with unknown number of clusters, new rows predicted, a picture, a report
	$(BIN)/spherepair demo --out demo-output

# One thread per worker: workers that each use all cores would wait for each other. Compiled tests are kept,
# whatever the environment says: to compile them takes each worker longer than to load torch.
test: dev  ## the whole test suite, with the code and links of the guide
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python $(SUITE)

test-ray: dev  ## labels made by a Ray cluster on this machine, with a worker killed; about a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m ray tests/scale

# Without .venv: a machine with a GPU has a torch of its own. PYTHON is one that has torch and pytest.
test-gpu:  ## the tests that need a GPU, with the packages of PYTHON
	PYTHONPATH=src TRITON_INTERPRET=0 $(PYTHON) -m pytest -q -m gpu -p no:cacheprovider tests/accel

# The oldest versions named in pyproject.toml, with the torch of the lock file: the oldest torch has no CPU build
# everywhere. The workflow tries that one too: make test-oldest OLDEST_TORCH=--torch
test-oldest:  ## the test suite with the oldest versions named in pyproject.toml (torch as locked), in .venv-oldest
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) .ci/oldest.py $(OLDEST_TORCH) > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python $(PIP) -r $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@cat $(OLDEST)/requirements.txt
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python $(SUITE) --ignore=tests/docs -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

test-newest:  ## the test suite with the newest versions that can be had, in .venv-newest
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python $(PIP) -e ".[dev]"
	OMP_NUM_THREADS=1 $(NEWEST)/bin/python $(SUITE)

SECONDS ?= 600
fuzz: dev  ## hostile files for every reader, requests for every route, for SECONDS (600); finds go to fuzz-output
	PYTHONPATH=src:. OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz.fuzzing --seconds $(SECONDS)

KILLS ?= 100
chaos: dev  ## kills commands KILLS (100) times at random moments, fills their disk, lets two write at once
	PYTHONPATH=src OMP_NUM_THREADS=1 $(BIN)/python bench/chaos.py --kills $(KILLS)

check: dev  ## formatting, lint, types, layers
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

licenses: dev  ## licenses of all locked packages; fails where one is not on the list of .ci/supply_chain.py
	$(BIN)/python .ci/supply_chain.py licenses

sbom: setup  ## what users install, as a bill of materials (CycloneDX): sbom.json
	$(BIN)/python .ci/supply_chain.py sbom > sbom.json

format: dev  ## apply formatting and safe fixes
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

page:  ## the page of `spherepair label`, from page/ into src/spherepair/app/page (needs node; what it builds is committed)
	cd page && npm ci --no-audit --no-fund --ignore-scripts && npm run check && npm run build

docs: dev  ## the documentation site, with the gallery: docs/_build/html/index.html
	rm -rf docs/reference/generated
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

bench: setup  ## timings as ratios in one run
	$(BIN)/python bench/run.py

clean:  ## remove what was made
	rm -rf $(VENV) $(OLDEST) $(NEWEST) demo-output bench-output fuzz-output sbom.json dist build docs/_build docs/gallery docs/reference/generated
