"""A job: a mapping that is run from a source connection to a target connection."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import model_validator

from delivery.errors import ConfigurationError
from models.document import Document, Name
from models.filter import Filter
from models.schedule import Schedule
from models.watermark import Cursor


class Priority(StrEnum):
    """Which of the three processing queues a job's messages go through."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class Action(Document):
    """What the target is asked to do for each change, in place of an upsert."""

    name: Name
    kind: Literal["procedure", "function"] = "procedure"


class Job(Document):
    """Jobs run in ascending `order`; those of equal order by name.

    `schedule` is a cron expression in `time_zone`; without one a job is due at every tick. A job is
    skipped in a tick in which one of `depends_on` failed or did not finish.

    `response_job` takes what the target made up, such as a number, back to the source; a job that
    does only that has no `watermark`. `skip_outdated` names the target field that holds the
    source's time of the change: an older change than that does not overwrite it.
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
    watermark: Cursor | None = None
    depends_on: tuple[Name, ...] = ()
    response_job: Name | None = None
    skip_outdated: Name | None = None
    action: Action | None = None

    @model_validator(mode="after")
    def _schedule_is_readable(self) -> Self:
        self.parsed_schedule()
        return self

    @model_validator(mode="after")
    def _an_action_stands_alone(self) -> Self:
        if self.action and (self.response_job or self.skip_outdated):
            msg = "an action knows neither responseJob nor skipOutdated; leave them out"
            raise ValueError(msg)
        return self

    @property
    def cursor(self) -> Cursor:
        """Return the watermark's field; raise ConfigurationError where the job has none."""
        if self.watermark is None:
            msg = (
                f"job {self.name!r} has no watermark: it takes responses and reads no changes; "
                "run the job whose responseJob it is"
            )
            raise ConfigurationError(msg)
        return self.watermark

    def parsed_schedule(self) -> Schedule | None:
        """Return the schedule, None where the job is due at every tick."""
        if self.schedule is None:
            return None
        return Schedule.parse(self.schedule, self.time_zone)

    @property
    def position(self) -> tuple[int, str]:
        """What jobs are sorted by."""
        return (self.order, self.name)
