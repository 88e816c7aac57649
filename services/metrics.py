"""What the connector counts, as OpenTelemetry metrics. Who reads them is the meter's affair."""

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

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


class Outcome(StrEnum):
    """How one delivery of a message ended, in the specification's words."""

    SUCCESS = "Success"
    TRANSITIVE = "Transitive"
    IGNORED = "Ignored"
    FAILED = "Failed"


class MetricsService:
    """Counts. Takes microseconds, never raises, safe for several threads."""

    def __init__(self, meter: "Meter") -> None:
        self._changes = meter.create_counter(
            Metric.CHANGES_DETECTED, "{change}", "Changes that a run found and sent to the queues"
        )
        self._processed = meter.create_counter(
            Metric.MESSAGES_PROCESSED, "{message}", "Deliveries of messages, by how they ended"
        )
        self._dead_lettered = meter.create_counter(
            Metric.MESSAGES_DEAD_LETTERED, "{message}", "Messages that were given up, by reason"
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
