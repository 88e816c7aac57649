"""What became of the changes, in figures that were measured, and whether these agree.

Four parties count, none of which knows the others' figures: the story, by what it changes in the
CRM; the app, by its metrics; the Service Bus emulator, by what was sent to its queues; the
dead-letter mover, by what it moved, and by what it found in the queues at the end.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devstack.ingestion import Ingestion

PROCESSING_QUEUES = ("sbqhigh", "sbqnormal", "sbqlow")
IGNORED_QUEUE = "sbqignored"

#: What all jobs together are called.
TOGETHER = "together"

_DETECTED, _PROCESSED, _DEAD = "ChangesDetected", "MessagesProcessed", "MessagesDeadLettered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What became of the changes of one job, or of several together.

    `changed` is how many there are to be found in the CRM.
    """

    changed: int = 0
    detected: int = 0
    sent: int = 0
    success: int = 0
    transitive: int = 0
    ignored: int = 0
    failed: int = 0
    dead_lettered: int = 0
    requeued: int = 0

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(**{n: getattr(self, n) + getattr(other, n) for n in self.__slots__})

    def values(self) -> dict[str, int]:
        """Return the figures of the messages by name, in the order of their way."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "changed"}

    @property
    def settled(self) -> int:
        """The deliveries that were a message's last; a failed one comes again, or is dead."""
        return self.success + self.transitive + self.ignored + self.dead_lettered

    @property
    def is_settled(self) -> bool:
        """Whether all is where it stays; each party is believed that says there is more."""
        return self.settled >= self.total + self.requeued

    @property
    def total(self) -> int:
        """How many changes are known of."""
        return max(self.changed, self.detected, self.sent)

    @property
    def done(self) -> int:
        """The changes that are in the ERP, or that something newer stands for there."""
        return self.success + self.ignored

    @property
    def set_aside(self) -> int:
        """The changes that wait for the dead-letter mover."""
        return self.transitive + self.dead_lettered - self.requeued


@dataclass(frozen=True, slots=True)
class Remaining:
    """Messages that lie in a queue at the end, for one reason, of which `error` is an example."""

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
        self._changed: Counter[str] = Counter()
        self._requeued: Counter[str] = Counter()

    def note_changed(self, jobs: Mapping[str, int]) -> None:
        """Enter what there is more to be found in the CRM."""
        self._changed.update(jobs)

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
        jobs |= arrived.keys() | self._changed.keys()
        return {job: self._figures_of(job, arrived[job]) for job in sorted(jobs)}

    def _figures_of(self, job: str, arrived: int) -> Figures:
        def processed(outcome: str) -> int:
            return self._metrics.sum_of(_PROCESSED, job=job, outcome=outcome)

        return Figures(
            changed=self._changed[job],
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

    def _arrivals(self) -> dict[str, dict[str, int]]:
        """Return what the broker has counted: messages by queue and job, up to a second ago."""
        try:
            counts: dict[str, dict[str, int]] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return counts


@dataclass(frozen=True, slots=True)
class Claim:
    """Sums of figures by name, that must be equal."""

    sides: tuple[Mapping[str, int], ...]

    @property
    def holds(self) -> bool:
        """Whether they are."""
        return len({sum(side.values()) for side in self.sides}) == 1

    def words(self) -> str:
        """Return the claim by names."""
        return " = ".join(" + ".join(side) for side in self.sides)

    def numbers(self) -> str:
        """Return what stands for them, in the same order."""
        sign = " = " if self.holds else " is not "
        return sign.join(" + ".join(f"{n:,}" for n in side.values()) for side in self.sides)


def claims(figures: Figures, ignored: int, waiting: int) -> tuple[Claim, ...]:
    """Return what must be true of messages, `ignored` and `waiting` of which lie in the queues."""
    has = {name.replace("_", "-"): count for name, count in figures.values().items()}

    def some(*names: str) -> dict[str, int]:
        return {name: has[name] for name in names}

    return (
        Claim(({"changed in the CRM": figures.changed}, some("detected"), some("sent"))),
        Claim(
            (
                some("sent", "requeued"),
                some("success", "transitive", "ignored", "dead-lettered"),
            )
        ),
        Claim(
            (
                some("transitive", "dead-lettered"),
                {**some("requeued"), "what still lies there": waiting},
            )
        ),
        Claim((some("ignored"), {f"what lies in {IGNORED_QUEUE}": ignored})),
    )


def balance(
    figures: Mapping[str, Figures], remaining: Iterable[Remaining]
) -> dict[str, tuple[Claim, ...]]:
    """Return the claims of each job, and of all jobs together as the last."""
    ignored: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for each in remaining:
        (ignored if each.queue == IGNORED_QUEUE else waiting).update(each.jobs)
    found = {job: claims(has, ignored[job], waiting[job]) for job, has in figures.items()}
    together = sum(figures.values(), start=Figures())
    return {**found, TOGETHER: claims(together, ignored.total(), waiting.total())}


def faults(balance: Mapping[str, Iterable[Claim]]) -> list[str]:
    """Return the claims that do not hold, in sentences; none where the books balance."""
    return [
        f"{job}: {claim.words()}, but {claim.numbers()}"
        for job, claims in balance.items()
        for claim in claims
        if not claim.holds
    ]
