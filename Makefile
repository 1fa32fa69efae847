# Every target sets itself up: a virtual environment of its own, from hash-pinned requirements.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: quickstart test test-engines lint docs clean

quickstart: $(VENV)/core  ## the main job: a simulated sweep and its page
	# Code 5: the sweep is complete and a point is invalid. On a busy machine that is an answer.
	$(BIN)/inferometer run quickstart --out runs/quickstart || test $$? -eq 5

test: $(VENV)/dev  ## every check: style, types, tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest

# vLLM on CPU, 3 GB, in an environment of its own; or in the one that INFEROMETER_ENGINES_ENV names.
# With a llama-server on the PATH, or INFEROMETER_LLAMA_SERVER, llama.cpp too; where
# INFEROMETER_CONTAINERS names a runtime (docker, podman), a point in a container.
ifdef INFEROMETER_ENGINES_ENV
ENGINES := $(INFEROMETER_ENGINES_ENV)
else
ENGINES := .venv-engines
test-engines: $(ENGINES)/ready
endif

test-engines: $(VENV)/dev  ## a real engine, started and measured; no part of test
	INFEROMETER_ENGINES_ENV=$(abspath $(ENGINES)) $(BIN)/pytest tests/engines

lint: $(VENV)/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/mypy

docs: $(VENV)/dev  ## docs/cli.md from the help texts
	$(BIN)/python tests/docs/docs_cli.py

clean:
	rm -rf $(VENV) .venv-engines

$(VENV)/core: requirements/core.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/core.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/dev: $(VENV)/core requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	touch $@

# Without its dependencies: the list is whole, and leaves out what breaks beside the CPU's torch.
.venv-engines/ready: requirements/engines.txt tests/engines/dist_info.py tests/engines/preflight.py
	$(PYTHON) -m venv .venv-engines
	.venv-engines/bin/python tests/engines/preflight.py requirements/engines.txt .
	.venv-engines/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/engines.txt
	.venv-engines/bin/python tests/engines/dist_info.py
	touch $@
