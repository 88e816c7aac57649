"""`python -m bench [NAME …]`: run the benchmarks, print a table and write `bench/results.json`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from bench import (
    detection,
    emulator_throughput,
    fairness,
    growth,
    mapping_speed,
    peers,
    processing,
    requeueing,
)
from bench.rows import Row

_BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "processing": processing.measure,
    "peers": peers.measure,
    "fairness": fairness.measure,
    "detection": detection.measure,
    "requeueing": requeueing.measure,
    "growth": growth.measure,
    "mapping": mapping_speed.measure,
    "emulator": emulator_throughput.measure,
}
_RESULTS = Path(__file__).with_name("results.json")


def main() -> int:
    """Return 1 where a ratio is below its bar."""
    names = sys.argv[1:] or list(_BENCHMARKS)
    if unknown := sorted(set(names) - set(_BENCHMARKS)):
        print(f"bench: no benchmark {unknown[0]!r}; there are {', '.join(_BENCHMARKS)}")
        return 2
    rows = [row for name in names for row in _BENCHMARKS[name]()]
    _RESULTS.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    print(f"\n{'':52}{'ours':>10}{'other':>10}{'ratio':>8}{'bar':>6}")
    for row in rows:
        bar = "" if row["bar"] is None else f"{row['bar']:.2f}"
        print(f"{row['name']:52}{row['ours']:10.0f}{row['other']:10.0f}{row['ratio']:8.2f}{bar:>6}")
    return int(any(row["bar"] is not None and row["ratio"] < row["bar"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
