# Two commands set everything up: `make demo` and `make test`. Both make .venv first, with Python
# 3.11 or later, and need nothing else.

PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: demo test lint types layers unit docs format environment clean

demo: .venv/demo-ready
	$(BIN)/twomem demo --workers $(WORKERS)

test: lint types layers unit docs

environment: .venv/test-ready

.venv/python-ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "twomem needs Python 3.11 or later: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

# torch comes first: its pinned build is what the other packages then find in place
.venv/demo-ready: .venv/python-ready pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train]'
	@touch $@

.venv/test-ready: .venv/demo-ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,dev]'
	@touch $@

lint: .venv/test-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/test-ready
	$(BIN)/pyright

layers: .venv/test-ready
	$(BIN)/lint-imports

unit: .venv/test-ready
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

docs: .venv/test-ready
	$(BIN)/zensical build --strict

format: .venv/test-ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv site build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
