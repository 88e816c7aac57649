"""Removes payloads that no message refers to any more.

A payload goes when it is older than any message can become outside the dead-letter queues, when
no message in any queue or dead-letter queue refers to it, and when both held the day before too. A
message may move from queue to queue while we look, therefore we look twice each time.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from azure.servicebus import ServiceBusSubQueue
from azure.servicebus.amqp import AmqpMessageBodyType

from models.queues import ALL_QUEUES, TRANSITIVE_QUEUES, QueueProperties
from services.payloads import PayloadService, StoredPayload, reference_in
from services.peeking import peek_all
from services.time_limit import start

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage

_LOGGER = logging.getLogger(__name__)

#: Clocks differ, and who moves a message holds it for a while.
_MARGIN = timedelta(days=2)

#: A payload is removed by a later run than the one that marked it.
_BETWEEN_RUNS = timedelta(hours=12)

#: Only names are kept, and a day has the next ones.
_MOST_CANDIDATES = 10_000

#: Looking through all queues takes no longer, or nothing is removed.
LIMIT = timedelta(minutes=5)

_PAGE = 100
_PEEK_TIMEOUT = timedelta(seconds=8)

_Place = tuple[str, ServiceBusSubQueue | None]

#: Everywhere that a message of ours can be.
_PLACES: tuple[_Place, ...] = tuple(
    (queue, sub_queue)
    for queue in ALL_QUEUES
    for sub_queue in (None, ServiceBusSubQueue.DEAD_LETTER)
)


def longest_life(queues: Mapping[str, QueueProperties]) -> timedelta:
    """Return how old a message can become outside the dead-letter queues, and a margin."""
    return _MARGIN + max(
        queues[queue].time_to_live + queues[side].time_to_live
        for queue, side in TRANSITIVE_QUEUES.items()
    )


class PayloadRemovalService:
    """Marks and sweeps. If any queue cannot be looked through to its end, it removes nothing."""

    def __init__(
        self,
        payloads: PayloadService,
        open_client: "Callable[[], ServiceBusClient]",
        queues: Callable[[], Mapping[str, QueueProperties]],
        *,
        now: Callable[[], datetime],
        limit: timedelta = LIMIT,
    ) -> None:
        self._payloads = payloads
        self._open_client = open_client
        self._queues = queues
        self._now = now
        self._limit = limit

    def execute(self) -> None:
        """Remove what was marked, mark what comes next, and unmark what is referred to."""
        candidates = self._candidates()
        if not candidates:
            return
        # Twice: what moved from queue to queue between two looks has arrived at the second.
        referred = self._referred_to(candidates) | self._referred_to(candidates)
        removed = marked = 0
        for name, payload in candidates.items():
            if name in referred:
                self._payloads.unmark(payload)
            elif payload.marked is None:
                marked += self._payloads.mark(payload, self._now())
            elif self._now() - payload.marked >= _BETWEEN_RUNS:
                removed += self._payloads.remove(payload)
        _LOGGER.info(
            "payloads: %d removed, %d found without a message and removed later, %d still needed",
            removed,
            marked,
            len(referred),
        )

    def _candidates(self) -> dict[str, StoredPayload]:
        oldest = self._now() - longest_life(self._queues())
        found: dict[str, StoredPayload] = {}
        for payload in self._payloads.stored():
            # A mark is younger than what it marks.
            if payload.marked is not None or payload.written < oldest:
                found[payload.name] = payload
            if len(found) >= _MOST_CANDIDATES:
                break
        return found

    def _referred_to(self, candidates: Collection[str]) -> set[str]:
        """Return which candidates some message refers to; raise where a queue cannot be read.

        All queues are read at once, since closing a receiver alone takes the SDK a second.
        """
        end = time.monotonic() + self._limit.total_seconds()
        deadline = self._now() + self._limit
        looks = [
            start(
                f"payloads-{queue}", partial(self._look, (queue, sub_queue), candidates, deadline)
            )
            for queue, sub_queue in _PLACES
        ]
        return set().union(*(look.result(max(0, end - time.monotonic())) for look in looks))

    def _look(self, place: _Place, candidates: Collection[str], deadline: datetime) -> set[str]:
        referred: set[str] = set()
        with self._open_client() as client:
            for body in _bodies(client, place):
                if self._now() >= deadline:
                    raise TimeoutError
                if (name := reference_in(body)) in candidates:
                    referred.add(str(name))
        return referred


def _bodies(client: "ServiceBusClient", place: _Place) -> Iterator[bytes]:
    """Yield the body of every message, whatever its state, page by page."""
    queue, sub_queue = place
    timeout = _PEEK_TIMEOUT.total_seconds()
    with client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver:
        yield from map(_bytes, peek_all(receiver, page_size=_PAGE, timeout_seconds=timeout))


def _bytes(message: "ServiceBusReceivedMessage") -> bytes:
    # A body of another kind is none of ours.
    is_ours = message.body_type is AmqpMessageBodyType.DATA
    return b"".join(message.body) if is_ours else b""
