"""What the connector counts, as OpenTelemetry metrics. Who reads them is the meter's affair."""

import time
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

#: The job of a message that could not be read.
UNKNOWN: Final = "unknown"

#: Stands for all names beyond the first MOST_NAMES.
OTHER: Final = "other"

#: Every name is a time series of its own, and a message may name any job.
MOST_NAMES: Final = 200


class Metric(StrEnum):
    """The names under which the metrics are found."""

    CHANGES_DETECTED = "ChangesDetected"
    MESSAGES_PROCESSED = "MessagesProcessed"
    MESSAGES_DEAD_LETTERED = "MessagesDeadLettered"
    QUEUE_DEPTH = "QueueDepth"
    OLDEST_MESSAGE_AGE = "OldestMessageAge"
    BATCH_SIZE = "BatchSize"
    LOCK_RENEWALS = "LockRenewals"
    WATERMARK_LAG = "WatermarkLag"
    CHANGE_BALANCE = "ChangeBalance"


class Outcome(StrEnum):
    """How one delivery of a message ended, in the specification's words."""

    SUCCESS = "Success"
    TRANSITIVE = "Transitive"
    IGNORED = "Ignored"
    FAILED = "Failed"


class Entry(StrEnum):
    """The sides of the balance: what was sent, and where it came to its end."""

    SENT = "sent"
    SUCCEEDED = "succeeded"
    TRANSITIVE = "transitive"
    IGNORED = "ignored"
    DEAD_LETTERED = "deadLettered"


class Renewal(StrEnum):
    """How the renewal of a lock ended."""

    RENEWED = "Renewed"
    LOST = "Lost"
    FAILED = "Failed"


class MetricsService:
    """Counts. Takes microseconds, never raises, safe for several threads."""

    def __init__(self, meter: "Meter", *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._changes = meter.create_counter(
            Metric.CHANGES_DETECTED, "{change}", "Changes that a run found and sent to the queues"
        )
        self._processed = meter.create_counter(
            Metric.MESSAGES_PROCESSED, "{message}", "Deliveries of messages, by how they ended"
        )
        self._dead_lettered = meter.create_counter(
            Metric.MESSAGES_DEAD_LETTERED, "{message}", "Messages that were given up, by reason"
        )
        self._batch_size = meter.create_histogram(
            Metric.BATCH_SIZE, "{message}", "Messages in one batch that the broker accepted"
        )
        self._lock_renewals = meter.create_counter(
            Metric.LOCK_RENEWALS, "{renewal}", "Renewals of messages' locks, by how they ended"
        )
        meter.create_observable_gauge(
            Metric.WATERMARK_LAG,
            [self._observe_lags],
            "s",
            "How old the state of the source is that was sent in full",
        )
        #: As they were, and when that was by a clock that never jumps.
        self._lags: tuple[Mapping[str, float], float] = ({}, 0)
        self._monotonic = monotonic
        self._balance = meter.create_counter(
            Metric.CHANGE_BALANCE, "{message}", "Messages sent, and where each came to its end"
        )
        self._jobs = _Names()
        self._reasons = _Names()

    def changes_detected(self, job_name: str, count: int) -> None:
        """Count what a run of a job sent; a run without changes counts as 0, not as no run."""
        self._changes.add(count, {"job": self._jobs.bounded(job_name)})

    def message_processed(self, job_name: str, outcome: Outcome) -> None:
        """Count one delivery; `job_name` is empty where the message could not be read."""
        self._processed.add(1, {"job": self._jobs.bounded(job_name), "outcome": outcome.value})

    def message_dead_lettered(self, job_name: str, reason: str) -> None:
        """Count a message that went to the dead-letter queue; `reason` is a stable key."""
        self._dead_lettered.add(
            1, {"job": self._jobs.bounded(job_name), "reason": self._reasons.bounded(reason)}
        )

    def batch_sent(self, queue: str, messages: Mapping[str, int]) -> None:
        """Count a batch that the broker accepted; `messages` says how many are of which job."""
        self._batch_size.record(sum(messages.values()), {"queue": queue})
        for job_name, count in messages.items():
            self.enter(Entry.SENT, queue, job_name, count)

    def enter(self, entry: Entry, queue: str, job_name: str, count: int = 1) -> None:
        """Enter messages into the balance: each once when it is sent, once when it ends."""
        attributes = {"entry": entry.value, "queue": queue, "job": self._jobs.bounded(job_name)}
        self._balance.add(count, attributes)

    def lock_renewed(self, queue: str, renewal: Renewal) -> None:
        """Count one renewal."""
        self._lock_renewals.add(1, {"queue": queue, "outcome": renewal.value})

    def watermark_lags(self, lags: Mapping[str, float]) -> None:
        """Take note of how many seconds behind its source each job is that reads one.

        From now on they grow, until the next note: a timer that stands still must show.
        """
        self._lags = (dict(lags), self._monotonic())

    def _observe_lags(self, _options: "CallbackOptions") -> "Iterator[Observation]":
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - imported when used

        lags, noted = self._lags
        passed = self._monotonic() - noted
        for job_name, seconds in lags.items():
            yield Observation(seconds + passed, {"job": self._jobs.bounded(job_name)})


class _Names:
    """The values that one attribute has had."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def bounded(self, name: str) -> str:
        """Return `name`, or what stands for it where there are too many already."""
        name = name or UNKNOWN
        if name in self._seen:
            return name
        # Threads that come here at the same moment may add one name each too many.
        if len(self._seen) >= MOST_NAMES:
            return OTHER
        self._seen.add(name)
        return name
