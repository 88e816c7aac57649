"""How long the oldest message of each queue has been waiting, as the metric `OldestMessageAge`."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from services.amqp_properties import annotations, sequence_number
from services.metrics import Metric
from services.operation.kept import Kept

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

    from services.processing.management_thread import ManagementThread

_LOGGER = logging.getLogger(__name__)

_PAGE: Final = 250

#: Scheduled messages may stand before the first that waits; behind so many the age is unknown.
_MOST_PAGES: Final = 20

#: "Message state", Microsoft Learn; a message that is locked is active too.
_ACTIVE: Final = 0


class OldestMessageService:
    """Peeks, which touches nothing and needs no more than the right to receive.

    A broker that does not answer must not hold up the export of all metrics: `thread` waits for it.
    """

    def __init__(
        self,
        thread: "ManagementThread",
        queues: Collection[str],
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._thread = thread
        self._queues = queues
        self._now = now
        self._kept = Kept(self._ask)

    def publish(self, meter: "Meter") -> None:
        """Make the ages a metric of `meter`; a queue in which nothing waits has 0."""
        meter.create_observable_gauge(
            Metric.OLDEST_MESSAGE_AGE,
            [self._observe],
            "s",
            "How long the oldest active message of a queue has been there",
        )

    def read(self) -> Mapping[str, float]:
        """Return seconds by queue, up to a minute old, without those unknown. Never raises."""
        return self._kept.read()

    def _observe(self, _options: "CallbackOptions") -> "Iterator[Observation]":
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - imported when used

        for queue, seconds in self.read().items():
            yield Observation(seconds, {"queue": queue})

    def _ask(self) -> dict[str, float]:
        ages: dict[str, float] = {}
        try:
            for queue in self._queues:
                ages |= self._age_of(queue)
        except Exception as error:  # noqa: BLE001 - the metric must never fail what it measures
            # Its text may hold addresses.
            _LOGGER.warning("ages of oldest messages are unknown: %s", type(error).__name__)
        return ages

    def _age_of(self, queue: str) -> dict[str, float]:
        number = 1
        for _ in range(_MOST_PAGES):
            page = self._page(queue, number)
            if not page:
                return {queue: 0.0}
            for since in filter(None, map(_waiting_since, page)):
                return {queue: max(0.0, (self._now() - since).total_seconds())}
            number = (sequence_number(page[-1]) or number) + 1
        return {}

    def _page(self, queue: str, number: int) -> list[bytes]:
        return self._thread.run(queue, lambda node: node.peek_page(number, _PAGE))


def _waiting_since(encoded: bytes) -> datetime | None:
    """Return when an active message came, None for another one."""
    found = annotations(encoded)
    since = found.get("x-opt-enqueued-time")
    if found.get("x-opt-message-state", _ACTIVE) != _ACTIVE or not isinstance(since, int):
        return None
    return datetime.fromtimestamp(since / 1000, UTC)
