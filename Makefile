# Every target sets up .venv by itself, and again only when pyproject.toml or constraints.txt changed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help setup quickstart test check format coverage clean
.DEFAULT_GOAL := help

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with the tested set of packages

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing mada and its tools into .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

quickstart: $(READY)  ## set up, show what there is, train a small team (two minutes)
	@printf '\n-- the paper as a recipe\n'
	$(BIN)/mada recipe check recipes/paper.toml
	@printf '\n-- problems, cut into disjoint subsets\n'
	$(BIN)/mada problems split examples/problems.jsonl --subsets 3 --size 2 --validation 2
	@printf '\n-- replies, graded\n'
	$(BIN)/mada grade examples/replies.jsonl
	@printf '\n-- how many parameters a team of six trains\n'
	$(BIN)/mada params tests/fixtures/deepseek-r1-distill-qwen-1.5b --agents 6
	@printf '\n-- three agents learn a toy task together, about a minute; Ctrl-C and start again, and it goes on\n'
	$(BIN)/python examples/train_team.py --run runs/quickstart
	@printf '\nnext: %s\n' '$(BIN)/mada --help, and README.md'

test: $(READY)  ## run the test suite, on a CPU
	$(BIN)/python -m pytest

check: $(READY)  ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)  ## rewrite files to the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: $(READY)  ## run the tests and show what they miss
	$(BIN)/python -m pytest --cov --cov-report=term-missing

clean:  ## remove .venv and caches
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .coverage*
