"""Tells what became of a delivery: to the metrics, in the log, and on the change's trace."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from models.message_properties import PREVIOUS_MESSAGE_ID, TRACE_PARENT
from services.event_log import Action, log_event, told
from services.metrics import Entry, MetricsService, Outcome
from services.processing.delivery import Delivery
from services.tracing import TracingService, tell_action

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_LOGGER = logging.getLogger(__name__)

_ACTIONS: Final = {
    Outcome.SUCCESS: Action.PROCESSED,
    Outcome.IGNORED: Action.IGNORED,
    Outcome.TRANSITIVE: Action.TRANSITIVE,
}

_ENTRIES: Final = {
    Outcome.SUCCESS: Entry.SUCCEEDED,
    Outcome.IGNORED: Entry.IGNORED,
    Outcome.TRANSITIVE: Entry.TRANSITIVE,
}

#: Somebody has to look at it, sooner or later.
_LEVELS: Final = {Outcome.TRANSITIVE: logging.WARNING}


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended; `outcome` is None where it did not take place."""

    outcome: Outcome | None
    text: str = ""


class DeliveryReports:
    """Opens a report for each delivery."""

    def __init__(self, metrics: MetricsService, tracing: TracingService) -> None:
        self._metrics = metrics
        self._tracing = tracing

    @contextmanager
    def of(self, delivery: Delivery) -> Iterator["Report"]:
        """Open the report for as long as the delivery is in hand; its time is the span's."""
        trace_parent = delivery.properties.get(TRACE_PARENT)
        with self._tracing.processing(delivery.subject, trace_parent) as span:
            yield Report(delivery, self._metrics, span)


class Report:
    """Of one delivery. Every way in which it ends is told once."""

    def __init__(self, delivery: Delivery, metrics: MetricsService, span: "Span") -> None:
        self._delivery = delivery
        self._metrics = metrics
        self._span = span
        self._subject = delivery.subject

    def ended(self, ending: Ending) -> None:
        """Tell of an attempt that ended well, or did not take place."""
        outcome = ending.outcome
        if outcome is None:
            self._tell(logging.INFO, Action.POSTPONED, ending.text)
            return
        self._metrics.message_processed(self._subject.job, outcome)
        self._enter(_ENTRIES[outcome])
        self._tell(_LEVELS.get(outcome, logging.INFO), _ACTIONS[outcome], ending.text)

    def failed(self, error: Exception) -> None:
        """Tell of an attempt that failed; the message goes back, or has left our hands."""
        self._metrics.message_processed(self._subject.job, Outcome.FAILED)
        self._tell(logging.WARNING, Action.FAILED, told(error))

    def dead_lettered(self, reason: str) -> None:
        """Tell that the message was given up; this comes after its failure."""
        self._metrics.message_dead_lettered(self._subject.job, reason)
        self._enter(Entry.DEAD_LETTERED)
        self._tell(logging.ERROR, Action.DEAD_LETTERED, reason)

    def _enter(self, entry: Entry) -> None:
        # One that was sent again has come to an end before: it would stand in the books twice.
        if PREVIOUS_MESSAGE_ID not in self._delivery.properties:
            self._metrics.enter(entry, self._subject.queue, self._subject.job)

    def _tell(self, level: int, action: Action, text: str) -> None:
        log_event(_LOGGER, level, action, self._subject, text)
        tell_action(self._span, action)
