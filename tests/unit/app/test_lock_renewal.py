"""Locks are kept whatever the handler does, and a lost one is noticed."""

import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusConnectionError

from delivery.errors import LockLostError, UnavailableError
from services.processing.lock_renewal import LockRenewalService
from tests.builders import NOW, a_delivery
from tests.fakes.services import Clock, MemoryMetrics

MINUTES = timedelta(minutes=5)


class Broker:
    """Holds the locks that it was not told to take away, and counts renewals."""

    def __init__(self) -> None:
        self.renewals: list[uuid.UUID] = []
        self.gone: set[uuid.UUID] = set()
        self.is_away = False
        self.metrics = MemoryMetrics()

    def renew(self, queue: str, token: uuid.UUID) -> None:
        assert queue == "sbqnormal"
        if self.is_away:
            raise ServiceBusConnectionError(message="away")
        if token in self.gone:
            raise MessageLockLostError
        self.renewals.append(token)


TOKEN = a_delivery().lock_token


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def a_service(broker: Broker, clock: Clock, duration: timedelta = MINUTES) -> LockRenewalService:
    return LockRenewalService(
        broker.renew,
        {"sbqnormal": duration},
        metrics=broker.metrics.service,
        now=clock,
        clock=clock.monotonic,
    )


@pytest.mark.parametrize(
    ("changes", "renewals"),
    [
        ({}, 0),
        ({"enqueued": NOW - timedelta(seconds=149)}, 0),
        ({"enqueued": NOW - timedelta(seconds=150)}, 1),
        ({"enqueued": None}, 1),
        ({"delivery_count": 2}, 1),
    ],
    ids=["fresh", "half", "old", "unknown", "again"],
)
def test_the_first_act_is_a_renewal_unless_the_lock_must_be_young(
    broker: Broker, clock: Clock, changes: dict[str, object], renewals: int
) -> None:
    with a_service(broker, clock).keep(a_delivery(**changes)):
        assert broker.renewals == [TOKEN] * renewals


def test_sb5_a_message_whose_lock_ran_out_in_the_worker_is_left_alone(
    broker: Broker, clock: Clock
) -> None:
    broker.gone.add(TOKEN)
    with (
        pytest.raises(LockLostError, match="delivered again"),
        a_service(broker, clock).keep(a_delivery(enqueued=NOW - MINUTES)),
    ):
        pytest.fail("the handler was let in")


def test_a_broker_that_does_not_answer_keeps_the_handler_out(broker: Broker, clock: Clock) -> None:
    broker.is_away = True
    with (
        pytest.raises(UnavailableError, match="away"),
        a_service(broker, clock).keep(a_delivery(delivery_count=2)),
    ):
        pytest.fail("the handler was let in")


@pytest.mark.parametrize(
    ("duration", "interval"),
    [(MINUTES, 30), (timedelta(seconds=60), 20), (timedelta(seconds=5), 5 / 3)],
)
def test_a_lock_is_renewed_every_30_seconds_or_third_of_its_duration(
    broker: Broker, clock: Clock, duration: timedelta, interval: float
) -> None:
    service = a_service(broker, clock, duration)
    tick = interval / 4
    with service.keep(a_delivery()):
        renewed_at = []
        for number in range(1, 41):
            clock.advance(tick)
            before = len(broker.renewals)
            service.renew_due()
            if len(broker.renewals) > before:
                renewed_at.append(number * tick)
    gaps = [b - a for a, b in zip([0, *renewed_at], renewed_at, strict=False)]
    assert len(gaps) >= 9
    assert max(gaps) <= interval + 0.001
    clock.advance(1000)
    service.renew_due()
    assert len(broker.renewals) == len(renewed_at), "nobody keeps the lock any more"


def test_a_clock_that_is_set_back_delays_no_renewal(broker: Broker, clock: Clock) -> None:
    service = a_service(broker, clock)
    with service.keep(a_delivery()):
        clock.jump(-3600)
        clock.advance(30)
        service.renew_due()
    assert broker.renewals == [TOKEN]


def test_a_lock_that_is_lost_on_the_way_is_noticed_once(
    broker: Broker, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    service = a_service(broker, clock)
    with service.keep(a_delivery()) as lock:
        lock.check()
        broker.gone.add(TOKEN)
        for _ in range(3):
            clock.advance(30)
            service.renew_due()
        with pytest.raises(LockLostError):
            lock.check()
        with pytest.raises(LockLostError):
            lock.wait(MINUTES)  # returns at once
    assert caplog.text.count("action=lock-lost queue=sbqnormal job=customers-to-erp key=D1") == 1
    assert broker.metrics.values("LockRenewals") == {("Lost", "sbqnormal"): 1}


def test_a_renewal_that_fails_is_tried_at_the_next_tick(broker: Broker, clock: Clock) -> None:
    service = a_service(broker, clock)
    with service.keep(a_delivery()) as lock:
        clock.advance(30)
        broker.is_away = True
        service.renew_due()
        broker.is_away = False
        service.renew_due()
        assert broker.renewals == [TOKEN]
        lock.check()


def test_sb1_a_thread_of_its_own_renews_while_the_handler_blocks() -> None:
    renewed = threading.Event()
    service = LockRenewalService(
        lambda _queue, _token: renewed.set(),
        {"sbqnormal": timedelta(milliseconds=30)},
        metrics=MemoryMetrics().service,
        now=lambda: datetime.now(UTC),
    )
    with service.keep(a_delivery(enqueued=datetime.now(UTC))):
        assert renewed.wait(10)
    service.close()
