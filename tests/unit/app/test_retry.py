"""The squared backoff as numbers."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import (
    DeliveryError,
    MappingError,
    RejectedError,
    UnavailableError,
    UnreadableError,
)
from delivery.retry import ATTEMPTS_EXHAUSTED, GiveUp, Squared, TryAgain

SECOND = timedelta(seconds=1)
POLICY = Squared(SECOND, max_attempts=10)


def test_sb7_ten_attempts_wait_4_9_to_100_seconds_384_in_all() -> None:
    waits = [POLICY.wait_before(attempt) / SECOND for attempt in range(1, 11)]
    assert waits == [0, 4, 9, 16, 25, 36, 49, 64, 81, 100]
    assert sum(waits) == 384


@pytest.mark.parametrize("error", [UnreadableError("no JSON"), MappingError("no number")])
def test_what_can_never_succeed_is_given_up_at_once(error: DeliveryError) -> None:
    assert POLICY.decide(error, attempt=1) == GiveUp(error.code)


@given(attempt=st.integers(1, 100), unit=st.timedeltas(timedelta(0), timedelta(minutes=1)))
def test_a_failure_is_tried_again_ever_later_until_the_attempts_are_used_up(
    attempt: int, unit: timedelta
) -> None:
    policy = Squared(unit, max_attempts=50)
    decision = policy.decide(UnavailableError("down"), attempt)
    if attempt >= 50:
        assert decision == GiveUp(ATTEMPTS_EXHAUSTED)
    else:
        assert decision == TryAgain(unit * (attempt + 1) ** 2)


def test_an_error_that_nobody_foresaw_is_tried_again_and_then_given_up() -> None:
    assert isinstance(POLICY.decide(KeyError("bug"), attempt=9), TryAgain)
    assert isinstance(POLICY.decide(RejectedError("no"), attempt=10), GiveUp)
