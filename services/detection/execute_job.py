"""`ExecuteJob`: one job, run by hand over HTTP."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson
from azure.core.exceptions import AzureError
from pydantic import ValidationError

from delivery.errors import DeliveryError
from models.document import Document, Name
from models.filter import Filter
from models.job import Job
from services.configuration_files import describe_faults
from services.detection.job_run import JobRun, JobRunner, RunOptions, Sender
from services.detection.jobs import in_order
from services.detection.reports import RunReports
from services.detection.service_bus import ServiceBusService
from services.initialization import InitializationService
from services.outgoing import OutgoingMessage

#: Azure cuts an HTTP answer off at 230 s; by then the caller has ours.
TIME_LIMIT = timedelta(seconds=200)

#: How many messages a dry run shows.
SAMPLES = 20


class ExecuteJobRequest(Document):
    """The body. A filter or a watermark makes it an extract, which leaves the job's row alone."""

    job: Name
    filter: Filter | None = None
    watermark: str | None = None
    dry_run: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and what goes into the JSON body."""

    status: int
    content: dict[str, Any]


@dataclass(slots=True)
class DryRun:
    """A sender that keeps the first messages and sends none."""

    samples: list[Any] = field(default_factory=list)

    def add_message_or_send(self, message: OutgoingMessage) -> None:
        """Keep the message where it is among the first."""
        if len(self.samples) < SAMPLES:
            self.samples.append(orjson.loads(message.body))

    def flush_batch(self) -> None:
        """Do nothing: nothing is sent."""


class ExecuteJobService:
    """Runs one job beside the timer. Both may overlap: that leads to repeats, never to gaps."""

    def __init__(
        self,
        initialization: InitializationService,
        runner: JobRunner,
        *,
        open_service_bus: Callable[[], ServiceBusService],
        reports: RunReports,
        now: Callable[[], datetime],
    ) -> None:
        self._initialization = initialization
        self._runner = runner
        self._open_service_bus = open_service_bus
        self._reports = reports
        self._now = now

    def execute(self, body: bytes) -> Answer:
        """Answer 200 with counts; 400, 404 or 409 with what to do; 502 where the run failed."""
        try:
            request = ExecuteJobRequest.model_validate_json(body)
        except ValidationError as error:
            return _refuse(400, *describe_faults(error))
        configuration = self._initialization.refresh()
        job = configuration.jobs.get(request.job)
        if job is None:
            known = ", ".join(job.name for job in in_order(configuration)) or "none"
            return _refuse(404, f"there is no job {request.job!r}; there are {known}")
        if job.watermark is None:
            return _refuse(
                409, f"job {job.name!r} takes responses and reads nothing; run the job it answers"
            )
        if not (job.enabled or request.force):
            return _refuse(
                409, f'job {job.name!r} is disabled; send "force": true to run it all the same'
            )
        return self._execute(job, request)

    def _execute(self, job: Job, request: ExecuteJobRequest) -> Answer:
        deadline = self._now() + TIME_LIMIT
        options = RunOptions(
            watermark=request.watermark,
            condition=request.filter,
            dry_run=request.dry_run,
            must_stop=lambda: self._now() >= deadline,
        )
        try:
            if request.dry_run:
                dry_run = DryRun()
                run = self._run(job, dry_run, options)
                return Answer(200, _counts(run, dry_run=True) | {"messages": dry_run.samples})
            with self._reports.of(job), self._open_service_bus() as service_bus:
                run = self._run(job, service_bus, options)
            self._reports.ended(run)
            return Answer(200, _counts(run))
        except (DeliveryError, AzureError) as error:
            self._reports.failed(job.name, error)
            # The SDKs' errors go on about connections.
            reason = str(error) if isinstance(error, DeliveryError) else type(error).__name__
            return _refuse(502, f"job {job.name!r} failed; its watermark is unchanged: {reason}")

    def _run(self, job: Job, sender: Sender, options: RunOptions) -> JobRun:
        configuration = self._initialization.ensure_initialized()
        # The schedule is the timer's: a run by hand never says when the job ran last.
        return self._runner.run(job, configuration, sender, options, last_cron_run=None)


def _counts(run: JobRun, *, dry_run: bool = False) -> dict[str, Any]:
    return {
        "job": run.job.name,
        "detected": run.detected,
        "sent": 0 if dry_run else run.detected,
        "watermarkBefore": run.watermark_before,
        "watermarkAfter": run.watermark_after,
        "finished": run.finished,
    }


def _refuse(status: int, *reasons: str) -> Answer:
    return Answer(status, {"errors": list(reasons)})
