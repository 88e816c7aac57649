import logging
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessageState, ServiceBusSubQueue

from delivery.errors import ConfigurationError
from models.queues import IGNORED_QUEUE, SIDE_QUEUES
from services.operation.expiry import ExpiryService
from services.operation.maintenance import MaintenanceService
from tests.fakes.services import Clock
from tests.memory_queues import MemoryQueues

TRANSITIVE = "sbqtransitivenormal"
DEAD = ServiceBusSubQueue.DEAD_LETTER
DAY = 24 * 3600


class Scene:
    def __init__(self, limit: timedelta = timedelta(minutes=2)) -> None:
        self.clock = Clock()
        self.queues = MemoryQueues(self.clock)
        self.expiry = ExpiryService(
            self.queues.open,  # type: ignore[arg-type] # the fakes' few methods
            SIDE_QUEUES,
            now=self.clock,
            limit=limit,
        )


def test_what_waited_too_long_goes_to_the_dead_letter_queue() -> None:
    scene = Scene()
    scene.queues.send(TRANSITIVE, b"old")
    scene.clock.advance(10 * DAY)
    scene.queues.send(TRANSITIVE, b"new")
    scene.clock.advance(5 * DAY)
    scene.expiry.execute()
    assert [message.content for message in scene.queues.at(TRANSITIVE, DEAD)] == [b"old"]
    [alive] = scene.queues.at(TRANSITIVE)
    assert (alive.content, alive.locked) == (b"new", False)


def test_what_was_ignored_and_is_old_is_dropped() -> None:
    scene = Scene()
    scene.queues.send(IGNORED_QUEUE)
    scene.clock.advance(15 * DAY)
    scene.expiry.execute()
    assert scene.queues.at(IGNORED_QUEUE) == scene.queues.at(IGNORED_QUEUE, DEAD) == []


def test_a_queue_of_live_messages_is_not_touched() -> None:
    scene = Scene()
    message = scene.queues.send(TRANSITIVE)
    scene.clock.advance(DAY)
    scene.expiry.execute()
    assert message.delivery_count == 0


def test_what_is_deferred_or_locked_by_somebody_ends_the_search() -> None:
    scene = Scene()
    scene.queues.send(TRANSITIVE).locked = True
    scene.queues.send(TRANSITIVE).state = ServiceBusMessageState.DEFERRED
    scene.clock.advance(15 * DAY)
    scene.queues.on_peek = lambda: scene.clock.advance(1)
    scene.expiry.execute()
    assert len(scene.queues.at(TRANSITIVE)) == 2
    assert scene.queues.peeks == len(SIDE_QUEUES) + 1


def test_a_queue_in_which_ever_more_expires_has_only_its_share_of_the_time() -> None:
    scene = Scene()
    scene.queues.send(TRANSITIVE, life=timedelta())

    def another() -> None:
        scene.queues.send(TRANSITIVE, life=timedelta())
        scene.clock.advance(10)

    scene.queues.on_peek = another
    scene.expiry.execute()
    assert scene.queues.peeks < 20


def test_thousands_are_let_go_in_one_run() -> None:
    scene = Scene()
    for _ in range(3_000):
        scene.queues.send(IGNORED_QUEUE)
    scene.clock.advance(15 * DAY)
    scene.expiry.execute()
    assert scene.queues.at(IGNORED_QUEUE) == []


def test_a_queue_that_fails_is_named_and_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    for queue in SIDE_QUEUES:
        scene.queues.send(queue)
    scene.clock.advance(15 * DAY)
    scene.queues.failing = {SIDE_QUEUES[0]}
    with caplog.at_level(logging.INFO):
        scene.expiry.execute()
    assert [len(scene.queues.at(queue)) for queue in SIDE_QUEUES] == [1, 0, 0, 0]
    assert f"queue {SIDE_QUEUES[0]}: its expired messages stay until tomorrow" in caplog.text
    assert f"queue {SIDE_QUEUES[1]}: 1 expired messages found" in caplog.text


def test_a_queue_that_hangs_is_left_after_its_share_of_the_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(limit=timedelta(seconds=0.4))
    scene.queues.send(IGNORED_QUEUE)
    scene.clock.advance(15 * DAY)
    scene.queues.hanging = {SIDE_QUEUES[0]}
    try:
        scene.expiry.execute()
    finally:
        scene.queues.released.set()
    assert scene.queues.at(IGNORED_QUEUE) == []
    assert f"queue {SIDE_QUEUES[0]}: its expired messages stay until tomorrow: TimeoutError" in (
        caplog.text
    )


def test_a_chore_that_fails_is_named_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def fail() -> None:
        raise KeyError

    def tell() -> None:
        msg = "the app setting SYNC_STORAGE is missing"
        raise ConfigurationError(msg)

    chores = {"one": fail, "two": tell, "three": lambda: done.append("three")}
    MaintenanceService(chores).execute()
    assert done == ["three"]
    assert "one: not done, and tried again tomorrow: KeyError" in caplog.text
    assert "two: not done, and tried again tomorrow: the app setting SYNC_STORAGE" in caplog.text
