"""Whether the speed stays what it is with ten times as much to do, and again ten times.

Three parts of the way, each at several sizes. A round goes up the sizes and down again, so that a
machine that becomes faster or slower meets them all alike. What it takes to start is not counted,
because it would make the small sizes slow, and hide that the large ones are:

- detection: between the first batch in the queue and the last, as the emulator wrote them down;
- processing through the host: between the first row and the last, as the database wrote them;
- the mover, both passes: the command's time, less its time for a queue that is empty.
"""

import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise

from bench import detection, processing, requeueing
from bench.rows import Row, compared

_SIZES = (1_000, 10_000, 100_000)
_MOVER_SIZES = (10_000, 100_000)
_ROUNDS = {"detection": 2, "processing": 1, "the mover": 1}
#: Linear within 20 %. For the largest step only: 1,000 changes are done too soon to be judged by.
_BAR = 0.8

type Rates = dict[int, list[float]]


def measure() -> list[Row]:
    """Return a row for each step from one size to the next: changes a second at both."""
    return [*_detection(), *_processing(), *_mover()]


def _detection() -> list[Row]:
    with detection.running_scene() as scene:
        for size in _SIZES:
            scene.fill(f"growth{size}", size)
        runs = iter(range(1_000))

        def rate(size: int) -> float:
            return scene.run(f"growth{next(runs)}", "detect", f"growth{size}")["arrivals"]

        return _rows("detection", _alternating("detection", _SIZES, rate))


def _processing() -> list[Row]:
    with processing.filled_stack(max(_SIZES)) as (stack, messages):

        def rate(size: int) -> float:
            return processing.rate(stack, messages[:size], processing.through_the_host)

        return _rows("processing", _alternating("processing", _SIZES, rate))


def _mover() -> list[Row]:
    start = requeueing.move(0).seconds
    peaks: Rates = {size: [] for size in _MOVER_SIZES}

    def rate(size: int) -> float:
        moved = requeueing.move(size)
        peaks[size].append(moved.peak_kb / 1024)
        return size / (moved.seconds - start)

    rates = _alternating("the mover", _MOVER_SIZES, rate)
    few, many = ([max(peaks[size])] for size in _MOVER_SIZES)
    steps = _step("the mover, peak MB", *_MOVER_SIZES)
    return [*_rows("the mover", rates), compared(steps, many, few, None)]


def _alternating(what: str, sizes: Sequence[int], rate: Callable[[int], float]) -> Rates:
    """Return the rates at each size, one for each round."""
    rates: Rates = {size: [] for size in sizes}
    for number in range(1, _ROUNDS[what] + 1):
        measured: Rates = {size: [] for size in sizes}
        for size in (*sizes, *reversed(sizes[:-1])):
            measured[size].append(rate(size))
            at = f"growth {number}/{_ROUNDS[what]}: {what} at {size:,}"
            print(f"{at}: {measured[size][-1]:.0f}/s", flush=True)
        for size, found in measured.items():
            rates[size].append(statistics.mean(found))
    return rates


def _rows(what: str, rates: Rates) -> list[Row]:
    sizes = list(rates)
    return [
        compared(
            _step(what, small, large),
            rates[large],
            rates[small],
            _BAR if large == sizes[-1] else None,
        )
        for small, large in pairwise(sizes)
    ]


def _step(what: str, small: int, large: int) -> str:
    return f"{what}, {large:,} changes / {small:,}"
