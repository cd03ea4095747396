# make demo    see it work        make test      every feature once    make test-lowest  oldest versions
# make check   lint, types, docs  make test-all  everything            make test-slow    long statistics
# make docs    the site           make dist      wheel and source archive
#
# Everything is installed into .venv with the exact versions of constraints.txt. Each step leaves a stamp there,
# so a second call only does what is new. All paths are relative: the clone may live in a folder with a space.

PYTHON ?= python3
LOWEST_PYTHON ?= python3.11
WORKERS ?= auto
TESTS ?= # what to give pytest in addition, such as TESTS=tests/receivers
VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt
# One BLAS thread per process: several processes with two each are far slower on two cores than with one.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(PY) -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal $(TESTS)
SPELLED := README.md CHANGELOG.md CONTRIBUTING.md docs src

.PHONY: help demo test test-all test-slow lowest test-lowest check docs torch flower constraints dist clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

demo: $(VENV)/.stamp-demo
	@$(PY) -m airfeel demo --out results/demo

test: $(VENV)/.stamp-test
	$(PYTEST)

test-all: $(VENV)/.stamp-all
	$(PYTEST) -m 'not slow'
	$(MAKE) --no-print-directory test-lowest

test-slow: $(VENV)/.stamp-slow
	$(PYTEST) -m 'slow or tracker'

check: $(VENV)/.stamp-check
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) tools/count.py --check
	$(PY) -m codespell_lib $(SPELLED)
	cd examples && ../$(PY) -m mypy --strict --config-file= --cache-dir=../.mypy_cache/outside receive.py
	$(MAKE) --no-print-directory docs

docs: $(VENV)/.stamp-check
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

lowest:
	$(MAKE) --no-print-directory VENV=.venv-lowest PYTHON=$(LOWEST_PYTHON) .venv-lowest/.stamp-lowest

test-lowest: lowest
	$(PYTEST:$(PY)=.venv-lowest/bin/python)

torch: $(VENV)/.stamp-torch

flower: $(VENV)/.stamp-flower

constraints:
	$(LOWEST_PYTHON) -m venv --clear .venv-resolve
	.venv-resolve/bin/python -m pip install --quiet '.[torch,flower,test,notebook,check,docs]' torch==2.13.0 hatchling editables
	@echo "# Exact versions for make, resolved on Python 3.11 from the extras in pyproject.toml." > constraints.txt
	@echo "# To renew: make constraints (then run make check test)." >> constraints.txt
	.venv-resolve/bin/python -m pip freeze --exclude airfeel | sed 's/+.*//' >> constraints.txt
	.venv-resolve/bin/python -m pip install --quiet --dry-run --ignore-installed --no-deps \
	  --report .venv-resolve/report.json -r constraints.txt
	.venv-resolve/bin/python tools/hashes.py .venv-resolve/report.json > .ci/hashes.txt
	rm -rf .venv-resolve

dist:
	$(PYTHON) -m venv --clear .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check build twine
	.venv-dist/bin/python -m build --outdir dist .
	.venv-dist/bin/python -m twine check --strict dist/*
	rm -rf .venv-dist

clean:
	rm -rf .venv .venv-lowest .venv-dist build dist docs/_build docs/api/generated

$(VENV)/.stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "airfeel needs Python 3.11 or newer: install it, or name it, as in: make PYTHON=python3.12 test" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "This Python has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@echo "Installing into $(VENV): about a minute, once."
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# The build backend is pinned too, hence no build isolation.
$(VENV)/.stamp-build: $(VENV)/.stamp-venv constraints.txt
	@$(INSTALL) hatchling editables
	@touch $@

$(VENV)/.stamp-demo: $(VENV)/.stamp-build pyproject.toml
	@$(INSTALL) --no-build-isolation -e '.[report]'
	@touch $@

$(VENV)/.stamp-test: $(VENV)/.stamp-build pyproject.toml
	@$(INSTALL) --no-build-isolation -e '.[test,notebook]'
	@touch $@

$(VENV)/.stamp-check: $(VENV)/.stamp-build pyproject.toml
	@$(INSTALL) --no-build-isolation -e '.[test,notebook,check,docs]'
	@touch $@

$(VENV)/.stamp-torch: $(VENV)/.stamp-build pyproject.toml
	@$(INSTALL) --no-build-isolation -e '.[torch]'
	@touch $@

$(VENV)/.stamp-flower: $(VENV)/.stamp-build pyproject.toml
	$(INSTALL) --no-build-isolation -e '.[flower]'
	@touch $@

$(VENV)/.stamp-all: $(VENV)/.stamp-test $(VENV)/.stamp-torch $(VENV)/.stamp-flower
	@touch $@

# Ray, Flower's engine for simulations, and the trackers are large: only slow tests have them.
$(VENV)/.stamp-slow: $(VENV)/.stamp-all
	@$(INSTALL) 'flwr[simulation]' -e '.[trackers]' --no-build-isolation
	@touch $@

$(VENV)/.stamp-lowest: $(VENV)/.stamp-venv constraints-lowest.txt pyproject.toml
	$(PY) -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints-lowest.txt -e '.[test]'
	@touch $@
