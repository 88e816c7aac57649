"""Benchmarks: ours against a peer, alternating in one run, because machines are noisy.

Each module has `measure()`, which returns rows; `python -m bench` runs all and prints a table.
"""
