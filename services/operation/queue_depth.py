"""How many messages wait in each queue: for the health check, and as the metric `QueueDepth`."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from delivery.errors import DeliveryError
from services.metrics import Metric
from services.operation.kept import Kept

if TYPE_CHECKING:
    from azure.servicebus.management import ServiceBusAdministrationClient
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_LOGGER = logging.getLogger(__name__)

#: Each request has a time limit of its own; after this time, no further one begins.
_LIMIT = timedelta(seconds=5)

_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

_MISSING_RIGHT = (
    "the right Microsoft.ServiceBus/namespaces/*/read is missing; grant the role Azure Service Bus "
    "Data Owner, or use a connection string with the right Manage"
)


@dataclass(frozen=True, slots=True)
class Depth:
    """What one queue holds; what is locked counts as active."""

    active: int
    scheduled: int
    dead_letter: int

    def by_kind(self) -> dict[str, int]:
        """Return the counts by the names under which they are shown."""
        return {
            "active": self.active,
            "scheduled": self.scheduled,
            "deadLetter": self.dead_letter,
        }


@dataclass(frozen=True, slots=True)
class QueueDepths:
    """What is known; `trouble` says why the other queues are not."""

    known: Mapping[str, Depth] = field(default_factory=dict)
    trouble: str = ""


class QueueDepthService:
    """Asks the administration endpoint, at most once a minute. Safe for several threads."""

    def __init__(
        self,
        open_administration: "Callable[[], ServiceBusAdministrationClient]",
        queues: Collection[str],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_administration = open_administration
        self._queues = queues
        self._monotonic = monotonic
        self._kept = Kept(self._ask, monotonic=monotonic)

    def publish(self, meter: "Meter") -> None:
        """Make the depths a metric of `meter`; queues whose depth is unknown have no value."""
        meter.create_observable_gauge(
            Metric.QUEUE_DEPTH,
            [self._observe],
            "{message}",
            "Messages in a queue, by kind: active, scheduled, deadLetter",
        )

    def read(self) -> QueueDepths:
        """Return the depths, up to a minute old. Never raises."""
        return self._kept.read()

    def _observe(self, _options: "CallbackOptions") -> "Iterator[Observation]":
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - imported when used

        for queue, depth in self.read().known.items():
            for kind, count in depth.by_kind().items():
                yield Observation(count, {"queue": queue, "kind": kind})

    def _ask(self) -> QueueDepths:
        known: dict[str, Depth] = {}
        deadline = self._monotonic() + _LIMIT.total_seconds()
        try:
            with self._open_administration() as administration:
                for queue in self._queues:
                    if self._monotonic() >= deadline:
                        return QueueDepths(known, "the administration endpoint answers too slowly")
                    known[queue] = _depth(administration, queue)
        except Exception as error:  # noqa: BLE001 - the metric must never fail what it measures
            trouble = _explain(error)
            _LOGGER.warning("queue depths are unknown: %s", trouble)
            return QueueDepths(known, trouble)
        return QueueDepths(known)


def _depth(administration: "ServiceBusAdministrationClient", queue: str) -> Depth:
    found = administration.get_queue_runtime_properties(queue)
    return Depth(
        active=found.active_message_count or 0,
        scheduled=found.scheduled_message_count or 0,
        dead_letter=found.dead_letter_message_count or 0,
    )


def _explain(error: Exception) -> str:
    if isinstance(error, DeliveryError):
        return str(error)
    if isinstance(error, ResourceNotFoundError):
        return "a queue does not exist; create the queues of servicebus.json"
    if isinstance(error, HttpResponseError) and error.status_code in _REFUSED:
        return _MISSING_RIGHT
    # The texts of others may hold addresses.
    return f"the administration endpoint was not reached ({type(error).__name__})"
