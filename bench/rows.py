"""What a benchmark reports."""

from typing import TypedDict


class Row(TypedDict):
    """Rates of both sides, the ratio ours / other, and the ratio that must be reached, if any."""

    name: str
    ours: float
    other: float
    ratio: float
    bar: float | None
