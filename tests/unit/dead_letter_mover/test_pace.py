"""The rate is kept on average, without a rush after a pause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dead_letter_mover.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def wait(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@pytest.mark.parametrize(
    ("rate", "at_once"), [(None, 200), (0.5, 1), (1, 1), (10.9, 10), (5_000, 200)]
)
def test_a_second_s_worth_is_worked_on_together(rate: float | None, at_once: int) -> None:
    assert Pace(rate, lambda: 0, lambda _: None).at_once == at_once


@given(
    batches=st.lists(st.tuples(st.integers(0, 200), st.floats(0, 5)), min_size=1, max_size=30),
    rate=st.floats(0.5, 500),
)
def test_the_rate_is_never_exceeded(batches: list[tuple[int, float]], rate: float) -> None:
    clock = Clock()
    pace = Pace(rate, lambda: clock.now, clock.wait)
    for number, (count, busy) in enumerate(batches):
        before = clock.now
        clock.now += busy
        pace.after(count)
        # Nobody knows when the first one began.
        assert clock.now - before >= count / rate + (busy if number == 0 else 0) - 1e-6


def test_a_steady_run_takes_as_long_as_it_should() -> None:
    clock = Clock()
    pace = Pace(10, lambda: clock.now, clock.wait)
    for _ in range(20):
        clock.now += 0.3
        pace.after(10)
    assert clock.now == pytest.approx(120.3)


def test_without_a_rate_nobody_waits() -> None:
    clock = Clock()
    Pace(None, lambda: clock.now, clock.wait).after(1_000)
    assert clock.now == 100
