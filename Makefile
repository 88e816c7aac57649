.PHONY: bench check demo lock set-up soak test up

PYTHON := .venv/bin/python

# The whole path on this machine, from one database to the other; no Azure account is needed.
# Options of the demonstration go into OPTIONS: make demo OPTIONS=--durable
demo: set-up
	$(PYTHON) -m devstack.demo $(OPTIONS)

# Every test.
test: set-up
	@mkdir -p .stack
	PYTEST_DEBUG_TEMPROOT=.stack $(PYTHON) -m pytest -n 3 --dist loadfile

# What takes a bit more than a minute: format, lint, types, import directions, unit tests and contracts on fakes.
check: set-up
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy .
	.venv/bin/lint-imports
	@mkdir -p .stack
	PYTEST_DEBUG_TEMPROOT=.stack $(PYTHON) -m pytest tests/unit tests/contract -m "not integration"

# The stack of the demo, running until Ctrl-C: make up OPTIONS=--durable detects by orchestrations.
up: set-up
	$(PYTHON) -m devstack.up $(OPTIONS)

# Ratios against a peer, measured in the same run; minutes.
bench: set-up
	$(PYTHON) -m bench

# The fault campaign: 20,000 changes while servers die, the target fails and clocks jump; ten minutes or so.
# With the seed that an earlier one printed, the same faults: make soak OPTIONS="--changes 20000 --seed 7"
soak: set-up
	$(PYTHON) -m soak $(OPTIONS)

# Write down every version beneath the ones that the requirements name.
lock: set-up
	@devstack/lock.sh

set-up:
	@devstack/set_up.sh
