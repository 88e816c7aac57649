"""The fault campaign: changes flow while servers die, targets fail and clocks jump; then the books.

`python -m soak` runs it for a person, `tests/integration/test_balance.py` runs a short one. It
stands outside the app, and sees of it what an operator could see.
"""
