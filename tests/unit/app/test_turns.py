"""Who waits on a thread, who is put off, and for how long."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import LockLostError, RejectedError, UnavailableError
from delivery.retry import Squared
from services.processing.delivery import Delivery
from services.processing.lock_renewal import Lock
from services.processing.turns import Postponed, Turns
from tests.builders import a_delivery
from tests.fakes.bus import TimedLock
from tests.fakes.services import Clock
from tests.unit.app.stage import SECOND, a_retry

POLICIES = {"sbqnormal": Squared(SECOND, max_attempts=10)}


def redelivery(attempt: int) -> Delivery:
    return a_delivery(**a_retry(attempt))


@pytest.fixture
def turns() -> Turns:
    return Turns(POLICIES, threads=4)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def waited(turns: Turns, delivery: Delivery, clock: Clock) -> timedelta:
    before = clock.now
    turns.wait(delivery, TimedLock(delivery, clock))
    return clock.now - before


def put_off(turns: Turns, delivery: Delivery) -> timedelta:
    with pytest.raises(Postponed) as postponement:
        turns.wait(delivery, TimedLock(delivery, Clock()))
    return postponement.value.delay


def test_sb7_short_waits_pass_inside_and_long_ones_as_scheduled_copies(
    turns: Turns, clock: Clock
) -> None:
    inside = [waited(turns, redelivery(attempt), clock) / SECOND for attempt in range(2, 6)]
    assert inside == [4, 9, 16, 25]
    outside = [put_off(turns, redelivery(attempt)) / SECOND for attempt in range(6, 11)]
    assert outside == [36, 49, 64, 81, 100]


def test_the_first_delivery_of_a_copy_has_waited_already(turns: Turns, clock: Clock) -> None:
    copy = a_delivery(properties={"CarriedAttempts": 6, "ErrorDeliveryCount": 6})
    assert copy.attempt == 7
    assert waited(turns, copy, clock) == timedelta(0)


class BusyLock(TimedLock):
    """A lock whose wait lets others come while it holds a thread."""

    def __init__(self, turns: Turns, inner: int) -> None:
        super().__init__(redelivery(2), Clock())
        self.turns, self.inner = turns, inner
        self.delays: list[timedelta] = []

    def wait(self, delay: timedelta) -> None:  # noqa: ARG002 - no time passes here
        if self.inner:
            inner = BusyLock(self.turns, self.inner - 1)
            inner.delays = self.delays
            try:
                self.turns.wait(redelivery(2), inner)
            except Postponed as postponement:
                self.delays.append(postponement.delay)


def test_at_most_half_of_the_threads_wait_and_the_rest_is_put_off() -> None:
    turns = Turns(POLICIES, threads=4)
    lock = BusyLock(turns, inner=3)
    turns.wait(redelivery(2), lock)
    assert lock.delays == [4 * SECOND]
    again = BusyLock(turns, inner=1)
    turns.wait(redelivery(2), again)
    assert again.delays == []


def test_a_lost_lock_ends_the_wait_and_frees_the_thread(turns: Turns, clock: Clock) -> None:
    lost = TimedLock(redelivery(2), clock)
    lost.lose()
    for _ in range(5):
        with pytest.raises(LockLostError):
            turns.wait(redelivery(2), lost)
    assert waited(turns, redelivery(2), clock) == 4 * SECOND


def test_sb12_what_may_have_ended_the_worker_never_waits_beside_others() -> None:
    turns = Turns(POLICIES, threads=4)
    delays = {put_off(turns, a_delivery(delivery_count=2, message_id=f"m-{n}")) for n in range(50)}
    assert len(delays) > 40, "messages that died together come back apart"
    assert all(4 * SECOND <= delay < 8 * SECOND for delay in delays)


@given(attempt=st.integers(2, 10), recorded=st.integers(0, 12) | st.none())
def test_only_a_failure_of_the_very_last_attempt_clears_a_message(
    attempt: int, recorded: int | None
) -> None:
    delivery = a_delivery(delivery_count=attempt, properties={"ErrorDeliveryCount": recorded})
    assert delivery.is_suspect == (recorded != attempt - 1)


def fail(turns: Turns, error: Exception, delivery: Delivery | None = None) -> None:
    with pytest.raises(type(error)), turns.at("erp", delivery or a_delivery()):
        raise error


@pytest.fixture
def silent(turns: Turns) -> Iterator[Turns]:
    """Turns with all places taken by calls of a target that does not answer."""
    fail(turns, UnavailableError("down"))
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(turns.at("erp", a_delivery()))
        yield turns
        stack.pop_all()


def test_a_silent_target_holds_half_of_the_threads_and_others_go_on(silent: Turns) -> None:
    with pytest.raises(Postponed), silent.at("erp", a_delivery()):
        pytest.fail("a third thread went to the silent target")
    with silent.at("crm", a_delivery()):
        pass


def test_who_is_put_off_again_and_again_comes_back_ever_later(silent: Turns) -> None:
    delays = []
    for postponements in (0, 1, 2, 3, 40):
        delivery = a_delivery(properties={"Postponements": postponements})
        with pytest.raises(Postponed) as postponement, silent.at("erp", delivery):
            pass
        delays.append(postponement.value.delay / SECOND)
    assert delays == [4, 9, 16, 25, 900]


@pytest.mark.parametrize("answer", [None, RejectedError("no"), KeyError("bug")])
def test_any_answer_of_the_target_ends_its_silence(turns: Turns, answer: Exception | None) -> None:
    fail(turns, UnavailableError("down"))
    if answer is None:
        with turns.at("erp", a_delivery()):
            pass
    else:
        fail(turns, answer)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(turns.at("erp", a_delivery()))


def test_a_real_lock_lets_the_time_pass_that_it_is_told() -> None:
    began = time.monotonic()
    Lock(a_delivery()).wait(timedelta(seconds=0.05))
    assert time.monotonic() - began >= 0.05
