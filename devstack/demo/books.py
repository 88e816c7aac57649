"""What became of the changes, in figures that were measured, and whether these agree.

Three parties count, none of which knows the others' figures: the app, by its metrics; the Service
Bus emulator, by what was sent to its queues; the dead-letter mover, by what it moved, and by what
it found in the queues at the end.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devstack.ingestion import Ingestion

PROCESSING_QUEUES = ("sbqhigh", "sbqnormal", "sbqlow")
IGNORED_QUEUE = "sbqignored"

_DETECTED, _PROCESSED, _DEAD = "ChangesDetected", "MessagesProcessed", "MessagesDeadLettered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What became of the changes of one job, or of several together."""

    detected: int = 0
    sent: int = 0
    success: int = 0
    transitive: int = 0
    ignored: int = 0
    failed: int = 0
    dead_lettered: int = 0
    requeued: int = 0

    def __add__(self, other: "Figures") -> "Figures":
        mine, others = self.values(), other.values()
        return Figures(**{name: count + others[name] for name, count in mine.items()})

    def values(self) -> dict[str, int]:
        """Return the figures by name, in the order of a message's way."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def settled(self) -> int:
        """The deliveries that were a message's last; a failed one comes again, or is dead."""
        return self.success + self.transitive + self.ignored + self.dead_lettered

    @property
    def expected(self) -> int:
        """How many messages must be settled before nothing is on its way any more."""
        return max(self.detected, self.sent) + self.requeued

    @property
    def is_settled(self) -> bool:
        """Whether all is where it stays."""
        return self.settled >= self.expected


@dataclass(frozen=True, slots=True)
class Remaining:
    """Messages that lie in a queue at the end, for one reason."""

    queue: str
    error: str
    jobs: Mapping[str, int]

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.jobs.values())


class Books:
    """Collects the figures while the demonstration runs."""

    def __init__(self, metrics: Ingestion, arrivals: Path) -> None:
        self._metrics = metrics
        self._path = arrivals
        self._requeued: Counter[str] = Counter()

    def note_requeued(self, jobs: Mapping[str, int]) -> None:
        """Enter what the dead-letter mover says it has sent back."""
        self._requeued.update(jobs)

    def runs_of(self, job: str) -> int:
        """Return how many runs of a job have reported what they detected; idle ones report 0."""
        return self._metrics.reports_of(_DETECTED, job=job)

    def figures(self) -> dict[str, Figures]:
        """Return what is known by now, by job."""
        arrived: Counter[str] = Counter()
        for queue, counts in self._arrivals().items():
            if queue in PROCESSING_QUEUES:
                arrived.update(counts)
        jobs = self._metrics.values_of(_DETECTED, "job") | self._metrics.values_of(
            _PROCESSED, "job"
        )
        return {job: self._figures_of(job, arrived[job]) for job in sorted(jobs | arrived.keys())}

    def _figures_of(self, job: str, arrived: int) -> Figures:
        def processed(outcome: str) -> int:
            return self._metrics.sum_of(_PROCESSED, job=job, outcome=outcome)

        return Figures(
            detected=self._metrics.sum_of(_DETECTED, job=job),
            # To the broker, what was sent back is a message like any other.
            sent=arrived - self._requeued[job],
            success=processed("Success"),
            transitive=processed("Transitive"),
            ignored=processed("Ignored"),
            failed=processed("Failed"),
            dead_lettered=self._metrics.sum_of(_DEAD, job=job),
            requeued=self._requeued[job],
        )

    def queues(self) -> list[str]:
        """Return the queues to which anything was sent."""
        return sorted(self._arrivals())

    def _arrivals(self) -> dict[str, dict[str, int]]:
        """Return what the broker has counted: messages by queue and job, up to a second ago."""
        try:
            counts: dict[str, dict[str, int]] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return counts


def faults(figures: Mapping[str, Figures], remaining: Iterable[Remaining]) -> list[str]:
    """Return where the books do not balance, in sentences; none where they do."""
    ignored: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for each in remaining:
        (ignored if each.queue == IGNORED_QUEUE else waiting).update(each.jobs)
    found = []
    for job, has in figures.items():
        claims = (
            ("detected", has.detected, "sent", has.sent),
            ("sent + requeued", has.sent + has.requeued, "settled", has.settled),
            ("ignored", has.ignored, f"in {IGNORED_QUEUE}", ignored[job]),
            (
                "transitive + dead-lettered",
                has.transitive + has.dead_lettered,
                "requeued + still there",
                has.requeued + waiting[job],
            ),
        )
        found += [
            f"{job}: {left} {count}, but {right} {other}"
            for left, count, right, other in claims
            if count != other
        ]
    return found
