"""Detection: reads the changes of every due job and sends them to the queues."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from delivery.errors import DeliveryError
from models.configuration import Configuration
from models.job import Job
from models.watermark import WatermarkType, WatermarkValue
from services.detection.job_run import JobRunner, RunOptions
from services.detection.jobs import JobService
from services.detection.service_bus import ServiceBusService
from services.initialization import InitializationService
from services.metrics import MetricsService
from services.operation.heartbeat import HeartbeatService

_LOGGER = logging.getLogger(__name__)

#: A source may write its local time without an offset, and no clock is quite right.
_MOST_AHEAD = timedelta(days=1)


class ProcessJobsForRetrievalInOrderService:
    """Runs the due jobs one after the other; one that fails does not stop those after it.

    `budget` bounds a tick: a deployment may end a running execution at any moment, and what it
    had read would be read again. The time left is shared evenly among the jobs left.
    """

    def __init__(  # noqa: PLR0913 - one parameter a participant of the specification's diagram
        self,
        initialization: InitializationService,
        jobs: JobService,
        runner: JobRunner,
        *,
        open_service_bus: Callable[[], ServiceBusService],
        metrics: MetricsService,
        heartbeat: HeartbeatService,
        budget: timedelta,
        now: Callable[[], datetime],
    ) -> None:
        self._initialization = initialization
        self._jobs = jobs
        self._runner = runner
        self._open_service_bus = open_service_bus
        self._metrics = metrics
        self._heartbeat = heartbeat
        self._budget = budget
        self._now = now

    def execute(self) -> None:
        """Run every due job; a job's failure is logged with its cause."""
        configuration = self._initialization.refresh()
        start = self._now()
        due = self._jobs.get_jobs_to_run(configuration, start)
        unfinished: set[str] = set()
        with self._open_service_bus() as service_bus:
            for position, job in enumerate(due):
                if waits_for := sorted(unfinished.intersection(job.depends_on)):
                    _LOGGER.warning(
                        "job %s skipped: %s did not finish in this tick", job.name, waits_for[0]
                    )
                    unfinished.add(job.name)
                    continue
                share = self._share(start, len(due) - position)
                if not self._run(job, configuration, service_bus, share):
                    unfinished.add(job.name)
        self._heartbeat.beat(self._now())

    def _share(self, start: datetime, jobs_left: int) -> datetime:
        """Return when the next of the jobs that are left has used up its part of the time left."""
        now = self._now()
        return now + (start + self._budget - now) / jobs_left

    def _run(
        self,
        job: Job,
        configuration: Configuration,
        service_bus: ServiceBusService,
        share: datetime,
    ) -> bool:
        """Return whether the job read its source to the end.

        One that fails keeps its watermark: the next run reads the same changes again.
        """
        started = self._now()
        options = RunOptions(must_stop=lambda: self._now() >= share)
        try:
            run = self._runner.run(job, configuration, service_bus, options, started)
        except Exception as error:
            service_bus.discard()
            # An error of ours says all that there is to say; a traceback would hide it.
            trace = None if isinstance(error, DeliveryError) else error
            text = "job %s failed, its watermark is unchanged: %s"
            _LOGGER.error(text, job.name, error, exc_info=trace)  # noqa: TRY400 - as said
            return False
        self._metrics.changes_detected(job.name, run.detected)
        reached = WatermarkValue(WatermarkType.of(job.cursor.type), run.watermark_after)
        if reached.is_later_than(self._now() + _MOST_AHEAD):
            _LOGGER.warning(
                "job %s: its watermark %s is in the future, and changes of today are passed over; "
                "correct that date at the source, then set the watermark back",
                job.name,
                run.watermark_after,
            )
        _LOGGER.info(
            "job %s: %d changes detected and sent%s",
            job.name,
            run.detected,
            "" if run.finished else "; its time is up, it goes on at the next tick",
        )
        return run.finished
