"""What a benchmark reports."""

import statistics
from typing import TypedDict


class Row(TypedDict):
    """Rates of both sides, the ratio ours / other, and the ratio that must be reached, if any."""

    name: str
    ours: float
    other: float
    ratio: float
    bar: float | None


def compared(name: str, ours: list[float], other: list[float], bar: float | None) -> Row:
    """Return the medians of rounds that alternated; the ratio is that of round and round."""
    return {
        "name": name,
        "ours": statistics.median(ours),
        "other": statistics.median(other),
        "ratio": statistics.median(a / b for a, b in zip(ours, other, strict=True)),
        "bar": bar,
    }
