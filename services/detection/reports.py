"""Tells of the runs of jobs: to the metrics, in the log, and as traces."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Final

from models.job import Job
from models.watermark import WatermarkType, WatermarkValue
from services.detection.job_run import JobRun
from services.event_log import Action, Subject, log_event, told
from services.metrics import MetricsService
from services.tracing import TracingService

_LOGGER = logging.getLogger(__name__)

#: A source may write its local time without an offset, and no clock is quite right.
_MOST_AHEAD: Final = timedelta(days=1)


class RunReports:
    """Every way in which a run ends is told once."""

    def __init__(
        self, metrics: MetricsService, tracing: TracingService, *, now: Callable[[], datetime]
    ) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self._now = now

    def of(self, job: Job) -> AbstractContextManager[None]:
        """Bracket a run; its changes' traces link to it."""
        return self._tracing.detecting(job.name)

    def ended(self, run: JobRun) -> None:
        """Tell of a run whose changes are in the queues, all of them or those of its time."""
        name = run.job.name
        self._metrics.changes_detected(name, run.detected)
        text = f"{run.detected} changes detected and sent"
        rest = "" if run.finished else "; its time is up, the next run goes on"
        self._tell(logging.INFO, Action.DETECTED, name, text + rest)
        reached = WatermarkValue(WatermarkType.of(run.job.cursor.type), run.watermark_after)
        if (reached.seconds_before(self._now() + _MOST_AHEAD) or 0) < 0:
            text = (
                f"its watermark {run.watermark_after} is in the future, and changes of today are "
                "passed over; correct that date at the source, then set the watermark back"
            )
            self._tell(logging.WARNING, Action.WATERMARK_AHEAD, name, text)

    def failed(self, job_name: str, error: Exception) -> None:
        """Tell of a run that failed; what it had sent will be sent again."""
        text = f"its watermark is unchanged: {told(error)}"
        self._tell(logging.ERROR, Action.RUN_FAILED, job_name, text)

    def skipped(self, job_name: str, unfinished: str) -> None:
        """Tell of a run that did not take place, because another one did not finish."""
        text = f"{unfinished} did not finish in this tick"
        self._tell(logging.WARNING, Action.RUN_SKIPPED, job_name, text)

    def _tell(self, level: int, action: Action, job_name: str, text: str) -> None:
        log_event(_LOGGER, level, action, Subject(job=job_name), text)
