"""Detection: reads the changes of every due job and sends them to the queues."""

from collections.abc import Callable
from datetime import datetime, timedelta

from models.configuration import Configuration
from models.job import Job
from services.detection.job_run import JobRunner, RunOptions
from services.detection.jobs import JobService
from services.detection.reports import RunReports
from services.detection.service_bus import ServiceBusService
from services.initialization import InitializationService
from services.operation.heartbeat import HeartbeatService


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
        reports: RunReports,
        heartbeat: HeartbeatService,
        budget: timedelta,
        now: Callable[[], datetime],
    ) -> None:
        self._initialization = initialization
        self._jobs = jobs
        self._runner = runner
        self._open_service_bus = open_service_bus
        self._reports = reports
        self._heartbeat = heartbeat
        self._budget = budget
        self._now = now

    def execute(self) -> None:
        """Run every due job; a job's failure is told with its cause."""
        configuration = self._initialization.refresh()
        start = self._now()
        due = self._jobs.get_jobs_to_run(configuration, start)
        unfinished: set[str] = set()
        with self._open_service_bus() as service_bus:
            for position, job in enumerate(due):
                if waits_for := sorted(unfinished.intersection(job.depends_on)):
                    self._reports.skipped(job.name, waits_for[0])
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
            with self._reports.of(job):
                run = self._runner.run(job, configuration, service_bus, options, started)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next job runs
            service_bus.discard()
            self._reports.failed(job.name, error)
            return False
        self._reports.ended(run)
        return run.finished
