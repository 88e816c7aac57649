"""Which jobs are due."""

from collections.abc import Mapping
from datetime import datetime

from models.configuration import Configuration
from models.job import Job
from services.detection.watermarks import StoredWatermark, WatermarkService


class JobService:
    """Chooses among the jobs of a configuration."""

    def __init__(self, watermarks: WatermarkService) -> None:
        self._watermarks = watermarks

    def get_jobs_to_run(self, configuration: Configuration, now: datetime) -> list[Job]:
        """Return the enabled jobs that are due at `now`, in the order in which they run.

        A job without a watermark reads nothing. One query reads when all ran last.
        """
        rows = self._watermarks.get_all_watermarks()
        return [
            job
            for job in in_order(configuration)
            if job.watermark and job.enabled and is_due(job, rows, now)
        ]


def in_order(configuration: Configuration) -> list[Job]:
    """Return all jobs in ascending order, by name where the order is equal."""
    return sorted(configuration.jobs.values(), key=lambda job: job.position)


def is_due(job: Job, rows: Mapping[str, StoredWatermark], now: datetime) -> bool:
    """Tell whether the schedule asks for a run; a job without one is due at every tick."""
    schedule = job.parsed_schedule()
    last_run = rows.get(job.name, StoredWatermark()).last_cron_run
    return schedule is None or schedule.is_due(last_run, now)
