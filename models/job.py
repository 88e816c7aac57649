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
    """The routine, with its schema where it needs one."""

    kind: Literal["procedure", "function"] = "procedure"
    """What kind of routine it is."""


class Job(Document):
    """A mapping that is run from a source connection to a target connection; a file in `jobs/`."""

    name: Name
    """Also names the row of its watermark: a job that is renamed starts from the beginning."""

    order: int = 0
    """Jobs run in ascending order; those of equal order by name."""

    enabled: bool = True
    """Where it is false, the timer leaves the job out; messages that are on their way are
    processed all the same.
    """

    priority: Priority = Priority.NORMAL
    """Through which of the three queues its messages go."""

    mapping: Name
    """The name of the mapping that it runs."""

    source: Name
    """The name of the connection that it reads from."""

    target: Name
    """The name of the connection that it writes to."""

    schedule: str | None = None
    """When it is due: a cron expression of five fields, or six with seconds first; day of month and
    day of week must both match. Without one it is due at every tick.
    """

    time_zone: str = "UTC"
    """The IANA name of the time zone of `schedule`."""

    filter: Filter | None = None
    """Which records it takes; without one all."""

    watermark: Cursor | None = None
    """How it finds changes. Only a job that is another's `responseJob` has none."""

    depends_on: tuple[Name, ...] = ()
    """Jobs with a lower `order`; in a tick in which one of them failed or ran out of time, this one
    is skipped.
    """

    response_job: Name | None = None
    """The job that takes what the target made up, such as a number, back to the source."""

    skip_outdated: Name | None = None
    """The target field that holds the source's time of the change: a change that is older does not
    overwrite it.
    """

    action: Action | None = None
    """What is called in the target in place of an upsert. It goes with neither `responseJob` nor
    `skipOutdated`.
    """

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
