"""`GetChangesActivity`: some pages of one job's source, sent before the activity returns.

It returns where it arrived, never records: what an activity returns stands in the orchestration's
history (case D6). An activity may run twice; that leads to repeats, never to gaps.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError, ResourceNotFoundError

from delivery.errors import ConfigurationError
from models.boundary import Boundary
from models.document import Document, Name
from models.job import Job
from services.broker_limits import cut
from services.detection.job_run import JobRunner, RunOptions, SourceOf
from services.detection.jobs import JobService
from services.detection.reports import RunReports
from services.detection.service_bus import ServiceBusService
from services.detection.watermarks import StoredWatermark, WatermarkService
from services.initialization import InitializationService

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient


#: A row of an orchestration's history holds 64 KB, a stack trace included (case D3).
_ERROR_BYTES = 2_000


#: Where the container holds what goes from activity to activity; no job's own folder is named so,
#: since escaping a name leaves no such `=` (`row_key`).
_FOLDER = "=durable/"

#: Longer than an activity, its repetition after a kill included.
_LEFT_AFTER = timedelta(days=1)


class JobFailedError(Exception):
    """A job's run failed; the text says why, in a few lines."""


class JobActivityParam(Document):
    """What an activity is asked for; `cookie` is the watermark where the one before arrived.

    `owner` is the orchestration's instance, `max_batch_size` so many source pages, `reading` what
    the one before has read by (`Configuration.reading_of`).
    """

    job: Name
    owner: Name
    page: int = 0
    cookie: str | None = None
    reading: str | None = None
    max_batch_size: int


class DurableDetectionService:
    """What the activities of durable detection do. The stored watermark is read, never written."""

    def __init__(  # noqa: PLR0913 - as `ProcessJobsForRetrievalInOrderService`
        self,
        initialization: InitializationService,
        jobs: JobService,
        watermarks: WatermarkService,
        scratch: "ContainerClient",
        *,
        source_of: SourceOf,
        open_service_bus: Callable[[], ServiceBusService],
        reports: RunReports,
        now: Callable[[], datetime],
    ) -> None:
        self._initialization = initialization
        self._jobs = jobs
        self._watermarks = watermarks
        self._scratch = scratch
        self._source_of = source_of
        self._open_service_bus = open_service_bus
        self._reports = reports
        self._now = now

    def list_jobs(self) -> list[list[Any]]:
        """Return the due jobs in their order, each with those that it depends on.

        Raise JobFailedError as `execute`.
        """
        with self._in_few_words(""):
            configuration = self._initialization.refresh()
            due = self._jobs.get_jobs_to_run(configuration, self._now())
            return [[job.name, list(job.depends_on)] for job in due]

    def execute(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Send the next pages; return where they end, and whether more is to come.

        `document` is a JobActivityParam. Raise JobFailedError, whose text is short enough for a
        history, whatever went wrong.
        """
        with self._in_few_words(str(document.get("job", ""))):
            return self._execute(JobActivityParam.model_validate(document))

    @contextmanager
    def _in_few_words(self, job_name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._reports.failed(job_name, error)
            raise JobFailedError(cut(str(error), _ERROR_BYTES)) from error

    def remove_leftovers(self) -> None:
        """Remove what instances left in the scratch container that ended in the middle of a job.

        Every activity writes its blob anew, so an old one belongs to nobody any more.
        """
        for blob in self._scratch.list_blobs(name_starts_with=_FOLDER):
            if self._now() - blob.last_modified > _LEFT_AFTER:
                self._scratch.delete_blob(blob.name)

    def _execute(self, param: JobActivityParam) -> dict[str, Any]:
        # Looked at anew: another worker has seen the job, and may have seen a newer form of it.
        configuration = self._initialization.refresh()
        job = configuration.jobs.get(param.job)
        if job is None:
            msg = f"there is no job {param.job!r} any more"
            raise ConfigurationError(msg)
        reading = configuration.reading_of(job)
        if param.reading not in (None, reading):
            # The cookie is a place in what was read so far.
            msg = f"job {job.name!r} or its mapping was changed while it was read; start again"
            raise ConfigurationError(msg)
        source = self._source_of(configuration.connections[job.source])
        carried = _Carried(self._watermarks, self._scratch, param)
        options = RunOptions(must_stop=_after(param.max_batch_size * source.page_size))
        runner = JobRunner(carried, source_of=lambda _: source)
        try:
            with self._reports.of(job), self._open_service_bus() as service_bus:
                run = runner.run(job, configuration, service_bus, options, last_cron_run=None)
            if not run.finished:
                carried.check_progress(job)
        except Exception:
            carried.forget()  # no activity follows one that failed
            raise
        self._reports.ended(run)
        if run.finished:
            carried.forget()
        return {
            "page": param.page + param.max_batch_size,
            "cookie": run.watermark_after,
            "watermark": run.watermark_before,
            "hasMore": not run.finished,
            "reading": reading,
            "detected": run.detected,
        }


class _Carried:
    """The watermark that goes from activity to activity, and what was sent at that very value.

    The value is the cookie. The hashes of what was sent at it may be many: they lie in a blob of
    the instance's own until the job is read.
    """

    def __init__(
        self, stored: WatermarkService, scratch: "ContainerClient", param: JobActivityParam
    ) -> None:
        self._stored = stored
        self._cookie = param.cookie
        self._before: Boundary | None = None
        self._after: Boundary | None = None
        name = hashlib.sha256(f"{param.owner}/{param.job}".encode()).hexdigest()
        self._blob = scratch.get_blob_client(_FOLDER + name)

    def get_watermark_by_job_name(self, job_name: str) -> StoredWatermark:
        if self._cookie is None:
            return self._stored.get_watermark_by_job_name(job_name)
        return StoredWatermark(self._cookie)

    def get_boundary(self, job_name: str, watermark: str) -> Boundary:
        self._before = self._boundary(job_name, watermark)
        return self._before

    def _boundary(self, job_name: str, watermark: str) -> Boundary:
        if self._cookie is None:
            return self._stored.get_boundary(job_name, watermark)
        try:
            boundary = Boundary.decode(self._blob.download_blob().readall().decode())
        except (ResourceNotFoundError, ValueError):
            return Boundary(watermark)
        return boundary if boundary.value == watermark else Boundary(watermark)

    def update_watermark_by_job_name(
        self,
        job_name: str,  # noqa: ARG002 - as the stored watermarks
        watermark: str,  # noqa: ARG002 - the boundary has it too
        boundary: Boundary,
        last_cron_run: datetime | None,  # noqa: ARG002 - a durable run is none of the timer's
    ) -> None:
        self._after = boundary
        self._blob.upload_blob(boundary.encode(), overwrite=True)

    def check_progress(self, job: Job) -> None:
        """Raise ConfigurationError where the next run would read the same again, without end."""
        if self._after == self._before:
            msg = (
                f"job {job.name!r}: reading does not get beyond the cursor value "
                f"{self._after.value if self._after else ''!r}: the database does not sort the "
                f"values of {job.cursor.field!r} as watermark.type {job.cursor.type!r} does, or "
                "more than a million records have that value; correct the type or the column's "
                "collation, or leave the job to the timer"
            )
            raise ConfigurationError(msg)

    def forget(self) -> None:
        """Remove the blob; one that stays does no harm."""
        with suppress(AzureError):
            self._blob.delete_blob()


def _after(count: int) -> Callable[[], bool]:
    """Return what is asked after each message, and says yes from the given one on."""
    left = count

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    return is_over
