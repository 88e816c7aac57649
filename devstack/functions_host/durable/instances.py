"""What is kept of an instance, and what is still to be done for it."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from devstack.functions_host.durable.retries import Retry

#: In these an instance has ended, and its id may be started again.
ENDED = frozenset({"Completed", "Failed", "Terminated"})


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an execution has come: what a replay must repeat, and the next number."""

    #: Labels of the actions that are in hand already.
    labels: tuple[str, ...] = ()
    next_id: int = 0
    #: Number of the attempt or of its timer -> the activity that is tried.
    retries: dict[int, Retry] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Self:
        """Return what `to_json` gave, after a way through JSON."""
        retries = {int(number): Retry(**retry) for number, retry in facts["retries"].items()}
        return cls(tuple(facts["labels"]), facts["next_id"], retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One orchestration; `execution` changes when it continues as new."""

    id: str
    execution: str
    name: str
    raw_input: str | None
    status: str
    created: datetime
    updated: datetime
    #: JSON texts; None where there is none.
    output: str | None = None
    custom_status: str | None = None
    progress: Progress = field(default_factory=Progress)

    @property
    def has_ended(self) -> bool:
        """Tell whether nothing will happen to it any more."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True)
class Activity:
    """A call that waits to be made, or is being made; made again after a kill."""

    instance: str
    execution: str
    task: int
    name: str
    input: str
    row: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from every other call."""
        return self.execution, self.task


@dataclass(frozen=True, slots=True)
class Timer:
    """A moment that an execution waits for."""

    task: int
    fire_at: datetime


@dataclass(frozen=True, slots=True)
class Operation:
    """A request to an entity; a signal has nobody who waits for the answer."""

    entity: str
    id: str
    name: str
    #: JSON, whose value is JSON again: the library reads it twice.
    input: str
    instance: str | None = None
    execution: str | None = None
    row: int = 0

    @property
    def is_signal(self) -> bool:
        """Tell whether no answer is wanted."""
        return self.instance is None
