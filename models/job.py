"""A job: a mapping that is run from a source connection to a target connection."""

from enum import StrEnum
from typing import Self

from pydantic import model_validator

from models.document import Document, Name
from models.filter import Filter
from models.schedule import Schedule
from models.watermark import Cursor


class Priority(StrEnum):
    """Which of the three processing queues a job's messages go through."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Job(Document):
    """Jobs run in ascending `order`; those of equal order by name.

    `schedule` is a cron expression in `time_zone`; without one a job is due at every tick. A job is
    skipped in a tick in which one of `depends_on` failed or did not finish.
    """

    name: Name
    order: int = 0
    enabled: bool = True
    priority: Priority = Priority.NORMAL
    mapping: Name
    source: Name
    target: Name
    schedule: str | None = None
    time_zone: str = "UTC"
    filter: Filter | None = None
    watermark: Cursor
    depends_on: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _schedule_is_readable(self) -> Self:
        self.parsed_schedule()
        return self

    def parsed_schedule(self) -> Schedule | None:
        """Return the schedule, None where the job is due at every tick."""
        if self.schedule is None:
            return None
        return Schedule.parse(self.schedule, self.time_zone)

    @property
    def position(self) -> tuple[int, str]:
        """What jobs are sorted by."""
        return (self.order, self.name)
