"""One run of one job: read the source from the watermark on, send, remember how far."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from models.boundary import MOST_RECORDS, Boundary
from models.configuration import Configuration
from models.connection import Connection
from models.filter import Filter
from models.job import Job
from models.mapping import Mapping
from models.queue_message import JobActionType, QueueMessage
from models.watermark import WatermarkValue
from services.detection.watermarks import StoredWatermark
from services.outgoing import OutgoingMessage


class SourceConnector(Protocol):
    """A system that changes are read from."""

    @property
    def can_stop_midway(self) -> bool:
        """Whether a run may end between two messages and go on from the last one's tracker."""
        ...

    @property
    def page_size(self) -> int:
        """How many changes it reads at once."""
        ...

    def retrieve_changes(
        self, mapping: Mapping, job: Job, watermark: WatermarkValue, condition: Filter | None
    ) -> Iterator[QueueMessage]:
        """Yield what changed at or after `watermark`, in the order of the cursor."""
        ...


#: The connector of a connection.
SourceOf = Callable[[Connection], SourceConnector]


class Watermarks(Protocol):
    """Where a run begins, and where it notes its end: `WatermarkService`, or what stands for it."""

    def get_watermark_by_job_name(self, job_name: str) -> StoredWatermark:
        """Return where the job is."""
        ...

    def get_boundary(self, job_name: str, watermark: str) -> Boundary:
        """Return what was sent at that value."""
        ...

    def update_watermark_by_job_name(
        self,
        job_name: str,
        watermark: str,
        boundary: Boundary,
        last_cron_run: datetime | None,
    ) -> None:
        """Note where the job is now."""
        ...


class Sender(Protocol):
    """Where messages go."""

    def add_message_or_send(self, message: OutgoingMessage) -> None:
        """Take a message, and send when a batch is full."""
        ...

    def flush_batch(self) -> None:
        """Send all that was taken; on return the broker has it."""
        ...


@dataclass(slots=True)
class JobRun:
    """What a run did; `finished` is false where its time was up before the source was read."""

    job: Job
    watermark_before: str
    watermark_after: str
    #: Changes that no earlier run has sent; in a dry run they are counted only.
    detected: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run differs from the timer's.

    A given watermark or filter makes it an extract: all that matches is sent, also what was sent
    before, and the stored watermark stays. `must_stop` is asked after every message, once one was
    sent: what earlier runs sent at the watermark must not use up all the time of every run.
    """

    watermark: str | None = None
    condition: Filter | None = None
    dry_run: bool = False
    must_stop: Callable[[], bool] = lambda: False

    @property
    def is_an_extract(self) -> bool:
        """Tell whether the run reads something other than what is new."""
        return self.watermark is not None or self.condition is not None


@dataclass(slots=True)
class _Progress:
    """The furthest cursor value, and what was sent at it."""

    watermark: WatermarkValue
    known: Boundary
    #: Source key -> content hash of the last message sent at the watermark; never the message:
    #: a million records may share one cursor value.
    sent: dict[str, int] = field(default_factory=dict)

    def is_known(self, message: OutgoingMessage) -> bool:
        """Tell whether this very change was sent before."""
        if message.change_tracker != self.known.value:
            return False
        return self.known.knows(message.source_key, message.content_hash)

    def move_to(self, change_tracker: str) -> None:
        if change_tracker == self.watermark.text:
            return
        reached = WatermarkValue(self.watermark.type, change_tracker)
        if reached.is_after(self.watermark):
            self.watermark = reached
            self.sent.clear()
        elif reached.is_same(self.watermark):
            # The same value, spelt otherwise: by a person, or by an older source.
            self.watermark = reached

    def note(self, message: OutgoingMessage) -> None:
        at_the_edge = message.change_tracker == self.watermark.text
        if at_the_edge and len(self.sent) < MOST_RECORDS:
            self.sent[message.source_key] = message.content_hash

    def boundary(self) -> Boundary:
        value = self.watermark.text
        start = self.known if self.known.value == value else Boundary(value)
        return start.with_sent(self.sent)


class JobRunner:
    """Runs jobs; holds no state between runs."""

    def __init__(
        self,
        watermarks: Watermarks,
        *,
        source_of: SourceOf,
    ) -> None:
        self._watermarks = watermarks
        self._source_of = source_of

    def run(
        self,
        job: Job,
        configuration: Configuration,
        sender: Sender,
        options: RunOptions,
        last_cron_run: datetime | None,
    ) -> JobRun:
        """Read, send, flush, and only then write the watermark.

        `last_cron_run` is written where the source was read to its end. An error leaves the
        watermark as it was; what the sender holds unsent is the caller's to discard.
        """
        progress = self._start(job, options)
        run = JobRun(job, progress.watermark.text, progress.watermark.text)
        source = self._source_of(configuration.connections[job.source])
        changes = source.retrieve_changes(
            configuration.mapping_of(job), job, progress.watermark, options.condition or job.filter
        )
        must_stop = options.must_stop if source.can_stop_midway else lambda: False
        run.finished = _send(changes, run, sender, progress, must_stop)
        sender.flush_batch()
        run.watermark_after = progress.watermark.text
        if not (options.is_an_extract or options.dry_run):
            self._watermarks.update_watermark_by_job_name(
                job.name,
                progress.watermark.text,
                progress.boundary(),
                last_cron_run if run.finished else None,
            )
        return run

    def _start(self, job: Job, options: RunOptions) -> _Progress:
        stored = self._watermarks.get_watermark_by_job_name(job.name).watermark
        given = stored if options.watermark is None else options.watermark
        watermark = WatermarkValue.initialize(job.cursor.type, given)
        if options.is_an_extract:
            return _Progress(watermark, Boundary(watermark.text))
        return _Progress(watermark, self._watermarks.get_boundary(job.name, watermark.text))


def _send(
    changes: Iterator[QueueMessage],
    run: JobRun,
    sender: Sender,
    progress: _Progress,
    must_stop: Callable[[], bool],
) -> bool:
    """Send what was not sent before; return whether the changes came to their end."""
    for change in changes:
        progress.move_to(change.change_tracker)
        if change.action is not JobActionType.TIME_STAMP:
            message = OutgoingMessage.of(change, run.job.priority)
            if not progress.is_known(message):
                sender.add_message_or_send(message)
                progress.note(message)
                run.detected += 1
        if run.detected and must_stop():
            return False
    return True
