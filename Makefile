# Everything runs in the local environment .venv, which the targets create when they need it.
# Paths are relative and quoted, so that folder names may contain spaces.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := "$(BIN)/python" -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test test-slow fuzz interruptions test-deep test-oracle test-browser docs picture bench reproduce check format wheel-test minimum-test clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(VENV)/.dev-ready ## create the development environment

demo: $(VENV)/.demo-ready ## run the demo: correct a model that was trained on wrong labels, and report the result
	@"$(BIN)/postshift" demo --out build/demo --force

# One process per core: more threads would only wait for each other.
test: export OPENBLAS_NUM_THREADS := 1
test: export OMP_NUM_THREADS := 1
test: $(VENV)/.dev-ready ## run the tests, except the slow ones
	@"$(BIN)/python" -m pytest -n auto -m "not slow" --ignore tests/fuzz

# Clusters of processes, experiments, benchmarks and recipes: what takes more than a few seconds each.
test-slow: export OPENBLAS_NUM_THREADS := 1
test-slow: export OMP_NUM_THREADS := 1
test-slow: $(VENV)/.dev-ready ## run the slow tests
	@"$(BIN)/python" -m pytest -n auto -m slow --ignore tests/fuzz --ignore tests/interruptions --ignore tests/browser --ignore tests/oracle --ignore tests/docs/test_build.py

fuzz: export OPENBLAS_NUM_THREADS := 1
fuzz: export OMP_NUM_THREADS := 1
fuzz: export POSTSHIFT_FUZZ := all
fuzz: $(VENV)/.dev-ready ## run all fuzzing cases: damaged and hostile files, odd tables, random rows
	@"$(BIN)/python" -m pytest -n auto tests/fuzz

interruptions: export OPENBLAS_NUM_THREADS := 1
interruptions: export OMP_NUM_THREADS := 1
interruptions: export POSTSHIFT_INTERRUPTIONS := 20
interruptions: $(VENV)/.dev-ready ## interrupt fits that ask an oracle: errors and kills, in Python and in the terminal, also of its server
	@"$(BIN)/python" -m pytest -n auto tests/interruptions

test-deep: export OPENBLAS_NUM_THREADS := 1
test-deep: export OMP_NUM_THREADS := 1
test-deep: $(VENV)/.deep-ready ## run the tests of neural networks (installs torch)
	@"$(BIN)/python" -m pytest -n auto tests/baselines/deep tests/experiments/paper/deep

test-oracle: export OPENBLAS_NUM_THREADS := 1
test-oracle: export OMP_NUM_THREADS := 1
test-oracle: $(VENV)/.oracle-ready ## test the metric as a service: PostgreSQL, killed servers, hostile requests, attacks
	@"$(BIN)/python" -m pytest -n auto tests/oracle
	@"$(BIN)/python" -m bandit --quiet --recursive src/postshift/oracle --configfile pyproject.toml

test-browser: export OPENBLAS_NUM_THREADS := 1
test-browser: export OMP_NUM_THREADS := 1
test-browser: export POSTSHIFT_ARTEFACTS ?= build/browser
test-browser: $(VENV)/.browser-ready $(VENV)/.docs-ready ## build the documentation; open it and the report in Chromium
	@"$(BIN)/python" -m pytest tests/browser tests/docs/test_build.py

docs: $(VENV)/.docs-ready ## build the documentation into docs/_build/html
	@"$(BIN)/python" -m sphinx -b html -q -E -W --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

picture: $(VENV)/.browser-ready demo ## create docs/_static/report.png and frontier.png, pictures of reports, with Chromium
	@"$(BIN)/python" -m tests.browser.picture build/demo/run/report.html docs/_static

bench: export OPENBLAS_NUM_THREADS := 1
bench: export OMP_NUM_THREADS := 1
bench: $(VENV)/.bench-ready ## compare the speed with other libraries (takes minutes; use an idle machine)
	@"$(BIN)/python" -m benchmarks
	@"$(BIN)/python" -m benchmarks.dask_scaling --store
	@"$(BIN)/python" -m benchmarks.service --store

reproduce: export OPENBLAS_NUM_THREADS := 1
reproduce: export OMP_NUM_THREADS := 1
reproduce: $(VENV)/.reproduce-ready ## run every experiment that has no results yet (takes hours; resumes after a stop)
	@"$(BIN)/python" -m experiments all

check: $(VENV)/.dev-ready ## check style, types and layers
	"$(BIN)/python" -m ruff check .
	"$(BIN)/python" -m ruff format --check .
	"$(BIN)/python" -m mypy
	"$(BIN)/lint-imports"

format: $(VENV)/.dev-ready ## format the code and fix what ruff can fix
	"$(BIN)/python" -m ruff format .
	"$(BIN)/python" -m ruff check --fix .

# -I keeps the working folder, the script's folder and PYTHONPATH off the import path: the script
# imports the installed wheel.
wheel-test: $(VENV)/.dev-ready ## build the wheel and test it in a fresh environment
	@set -eu; \
	root=$$(pwd); \
	tmp=$$(mktemp -d); \
	trap 'rm -rf "$$tmp"' EXIT; \
	trap 'exit 1' HUP INT TERM; \
	mkdir "$$tmp/run"; \
	echo "Building the wheel ..."; \
	"$(BIN)/python" -m build --wheel --outdir "$$tmp/dist" . >"$$tmp/build.log" 2>&1 \
		|| { cat "$$tmp/build.log" >&2; exit 1; }; \
	echo "Installing it into a fresh environment ..."; \
	"$(BIN)/python" -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt "$$tmp"/dist/*.whl; \
	echo "Running tests/packaging/wheel_smoke.py ..."; \
	cd "$$tmp/run"; \
	"$$tmp/venv/bin/python" -I "$$root/tests/packaging/wheel_smoke.py"; \
	echo "Running its command line ..."; \
	"$$tmp/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
		-c "$$root/constraints.txt" "$$(echo "$$tmp"/dist/*.whl)[cli,report]"; \
	"$$tmp/venv/bin/postshift" demo --out demo

# The oldest packages have no wheels for newer Pythons. As above, the script imports the installed wheel.
minimum-test: export OPENBLAS_NUM_THREADS := 1
minimum-test: export OMP_NUM_THREADS := 1
minimum-test: $(VENV)/.dev-ready ## test the wheel with the oldest packages that pyproject.toml allows, on Python 3.11
	@set -eu; \
	root=$$(pwd); \
	is_old='import sys; sys.exit(sys.version_info[:2] != (3, 11))'; \
	python="$(BIN)/python"; \
	"$$python" -c "$$is_old" || python=python3.11; \
	"$$python" -c "$$is_old" || { \
		echo "make minimum-test needs Python 3.11: put python3.11 on the PATH." >&2; exit 1; }; \
	tmp=$$(mktemp -d); \
	trap 'rm -rf "$$tmp"' EXIT; \
	trap 'exit 1' HUP INT TERM; \
	mkdir "$$tmp/run"; \
	"$(BIN)/python" -m tests.packaging.minimum_versions >"$$tmp/versions.txt"; \
	"$(BIN)/python" -m build --wheel --outdir "$$tmp/dist" . >"$$tmp/build.log" 2>&1 \
		|| { cat "$$tmp/build.log" >&2; exit 1; }; \
	echo "Installing the oldest packages:" $$(cat "$$tmp/versions.txt") "..."; \
	"$$python" -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
		-r "$$tmp/versions.txt" "$$tmp"/dist/*.whl; \
	echo "Running tests/packaging/minimum_smoke.py ..."; \
	cd "$$tmp/run"; \
	"$$tmp/venv/bin/python" -I "$$root/tests/packaging/minimum_smoke.py" "$$tmp/versions.txt"

clean: ## remove the environment, the build files and the caches
	rm -rf "$(VENV)" build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +

# --- environments -------------------------------------------------------------------------------

$(VENV)/.created:
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
		echo "postshift needs Python 3.11 or newer, and '$(PYTHON)' was not found." >&2; \
		echo "Name another one with: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "postshift needs Python 3.11 or newer; '$(PYTHON)' is" \
			"$$("$(PYTHON)" -c 'import platform; print(platform.python_version())')." >&2; \
		echo "Name another one with: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@echo "Creating the environment $(VENV) ..."
	@"$(PYTHON)" -m venv "$(VENV)"
	@touch "$@"

$(VENV)/.demo-ready: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing postshift with its command line and report ..."
	@$(PIP) -c constraints.txt -e '.[cli,report]'
	@touch "$@"

$(VENV)/.dev-ready: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing postshift and the development packages ..."
	@$(PIP) -c constraints.txt -e '.[dev]'
	@touch "$(VENV)/.demo-ready" "$@"

$(VENV)/.deep-ready: $(VENV)/.dev-ready
	@echo "Installing torch ..."
	@$(PIP) -c constraints.txt -e '.[dev,deep]'
	@touch "$@"

$(VENV)/.oracle-ready: $(VENV)/.dev-ready
	@echo "Installing PostgreSQL and the judges of the service ..."
	@$(PIP) -c constraints.txt -e '.[dev,postgres,attack]'
	@touch "$@"

$(VENV)/.browser-ready: $(VENV)/.dev-ready
	@echo "Installing the browser driver ..."
	@$(PIP) -c constraints.txt -e '.[dev,browser]'
	@touch "$@"

$(VENV)/.docs-ready: $(VENV)/.dev-ready
	@echo "Installing the documentation tools ..."
	@$(PIP) -c constraints.txt -e '.[dev,docs]'
	@touch "$@"

$(VENV)/.reproduce-ready: $(VENV)/.deep-ready
	@echo "Installing the packages for the experiments ..."
	@$(PIP) -c constraints.txt -e '.[dev,deep,reproduce,rivals,bench]'
	@touch "$@"

$(VENV)/.bench-ready: $(VENV)/.dev-ready
	@echo "Installing the libraries to compare with ..."
	@$(PIP) -c constraints.txt -e '.[dev,fast,bench]'
	@touch "$@"
