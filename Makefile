.PHONY: bench check demo set-up test up

PYTHON := .venv/bin/python

# The whole path on this machine, from one database to the other; no Azure account is needed.
demo: set-up
	$(PYTHON) -m devstack.demo

# Every test.
test: set-up
	$(PYTHON) -m pytest

# What costs seconds: format, lint, types, import directions, unit tests and contracts on fakes.
check: set-up
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy .
	.venv/bin/lint-imports
	$(PYTHON) -m pytest tests/unit tests/contract -m "not integration"

# The stack of the demo, running until Ctrl-C.
up: set-up
	$(PYTHON) -m devstack.up

# Ratios against a peer, measured in the same run; minutes.
bench: set-up
	$(PYTHON) -m bench

set-up:
	@devstack/set_up.sh
