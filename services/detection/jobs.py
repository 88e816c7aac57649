"""Which jobs are due."""

from collections.abc import Mapping
from datetime import datetime

from models.configuration import Configuration
from models.job import Job
from models.watermark import WatermarkType, WatermarkValue
from services.detection.watermarks import StoredWatermark, WatermarkService
from services.metrics import MetricsService


class JobService:
    """Chooses among the jobs of a configuration."""

    def __init__(self, watermarks: WatermarkService, metrics: MetricsService) -> None:
        self._watermarks = watermarks
        self._metrics = metrics

    def get_jobs_to_run(self, configuration: Configuration, now: datetime) -> list[Job]:
        """Return the enabled jobs that are due at `now`, in the order in which they run.

        A job without a watermark reads nothing. One query reads when all ran last, and so how far
        behind they are, due or not.
        """
        rows = self._watermarks.get_all_watermarks()
        reading = [job for job in in_order(configuration) if job.watermark and job.enabled]
        lags = {job.name: lag_of(job, rows, now) for job in reading}
        self._metrics.watermark_lags({n: lag for n, lag in lags.items() if lag is not None})
        return [job for job in reading if is_due(job, rows, now)]


def in_order(configuration: Configuration) -> list[Job]:
    """Return all jobs in ascending order, by name where the order is equal."""
    return sorted(configuration.jobs.values(), key=lambda job: job.position)


def is_due(job: Job, rows: Mapping[str, StoredWatermark], now: datetime) -> bool:
    """Tell whether the schedule asks for a run; a job without one is due at every tick."""
    schedule = job.parsed_schedule()
    last_run = rows.get(job.name, StoredWatermark()).last_cron_run
    return schedule is None or schedule.is_due(last_run, now)


def lag_of(job: Job, rows: Mapping[str, StoredWatermark], now: datetime) -> float | None:
    """Return how many seconds ago the source was in the state that was sent in full.

    That is when it was read to its end last, or at the watermark where that is later: while a long
    source is read, and where nothing was read to its end yet. None where neither is known.
    """
    row = rows.get(job.name)
    if row is None or row.watermark is None:
        return None
    at_watermark = WatermarkValue(WatermarkType.of(job.cursor.type), row.watermark)
    ages = [at_watermark.seconds_before(now)]
    if row.last_cron_run is not None:
        ages.append((now - row.last_cron_run).total_seconds())
    known = [age for age in ages if age is not None]
    return max(0.0, min(known)) if known else None
