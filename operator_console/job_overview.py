"""What an operator wants to know of each job."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from models.configuration import Configuration
from models.job import Job
from services.detection.jobs import in_order
from services.detection.watermarks import StoredWatermark


class Due(StrEnum):
    """When a job runs next; `LATER` is told more exactly by a time."""

    EVERY_TICK = "everyTick"
    NOW = "now"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job; `next_due` is empty where no schedule and last run determine it."""

    job: Job
    due: Due
    next_due: datetime | None
    last_run: datetime | None
    watermark: str | None


def overview(
    configuration: Configuration, rows: Mapping[str, StoredWatermark], now: datetime
) -> Iterator[JobLine]:
    """Yield all jobs in the order in which they run."""
    for job in in_order(configuration):
        row = rows.get(job.name, StoredWatermark())
        due, next_due = _when(job, row.last_cron_run, now)
        yield JobLine(job, due, next_due, row.last_cron_run, row.watermark)


def _when(job: Job, last_run: datetime | None, now: datetime) -> tuple[Due, datetime | None]:
    if not (job.watermark and job.enabled):
        return Due.NEVER, None
    schedule = job.parsed_schedule()
    if schedule is None:
        return Due.EVERY_TICK, None
    if last_run is None:
        return Due.NOW, None
    next_due = schedule.next_after(last_run)
    return Due.NOW if next_due <= now else Due.LATER, next_due
