"""Remembers what was deleted, so that an older change that comes late does not bring it back.

A row that is gone cannot say how new it was. So a deletion is noted, in the Azure table
`deletions`, before the target deletes; and an upsert looks for a later deletion after it has
written. Then the row is gone in the end, whichever comes first: either the upsert finds the note,
or the target deletes after the upsert.

Jobs that have deleted nothing for a month are spared most looks: an instance asks for a job's last
note once in `_KNOWN_FOR`, and the target deletes no sooner than `_DELAY` after the note, when every
instance has heard that there is one.
See docs/decisions/0007-deletions-are-remembered.md.
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableErrorCode, UpdateMode

from delivery.errors import UnavailableError
from models.job import Job
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from services.storage_access import storage_of

if TYPE_CHECKING:
    from azure.data.tables import TableClient

DELETIONS = "deletions"

#: For so long an instance relies on what it has read about a job's last note.
_KNOWN_FOR = timedelta(seconds=1)

#: Much longer than that, because the clocks of two instances differ.
_DELAY = timedelta(seconds=5)

_ATTEMPTS = 5
_PARTITION_DIGITS = 2
_JOBS_WITH_NOTES = "jobs"


class DeletionService:
    """Notes deletions by job and record. The table holds hashes and times, and nobody's data.

    `clock` counts seconds and never jumps: a wall clock that is set back would let an instance rely
    for too long on what it has read.
    """

    def __init__(
        self,
        table: "TableClient",
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._now = now
        self._clock = clock
        #: By job: whether anything was ever noted, and as of when that is known.
        self._known: dict[str, tuple[bool, float]] = {}

    def prepare_storage(self) -> None:
        """Create what a new storage account lacks."""
        with suppress(ResourceExistsError):
            self._table.create_table()

    def note(self, job: Job, message: QueueMessage) -> timedelta:
        """Note the deletion that `message` is, unless a later one is noted already.

        Return how long the target must still wait with it. Raise UnavailableError where the storage
        is away.
        """
        with storage_of(f"table {DELETIONS!r}"):
            return self._note(job, message)

    def _note(self, job: Job, message: QueueMessage) -> timedelta:
        for _ in range(_ATTEMPTS):
            noted = self._find(*place_of(job.name, message.source_key))
            if noted and not _is_after(job, message.change_tracker, noted["ChangeTracker"]):
                noted_at: datetime = noted["NotedAt"]
                # No longer than at first: the clock may have been set back.
                return min(max(noted_at + _DELAY - self._now(), timedelta()), _DELAY)
            if self._write(job, message, noted):
                return _DELAY
        msg = f"table {DELETIONS!r}: others kept writing the row of this record; it is tried again"
        raise UnavailableError(msg)

    def later_than(self, job: Job, message: QueueMessage) -> str | None:
        """Return the change tracker of a deletion newer than `message`, None without one.

        Raise UnavailableError where the storage is away.
        """
        with storage_of(f"table {DELETIONS!r}"):
            if not self._has_notes(job):
                return None
            noted = self._find(*place_of(job.name, message.source_key))
        if noted and _is_after(job, noted["ChangeTracker"], message.change_tracker):
            return str(noted["ChangeTracker"])
        return None

    def forget_old(self, until: datetime) -> int:
        """Remove what was noted before `until`; return how much that was."""
        old = self._table.query_entities("Timestamp lt @until", parameters={"until": until})
        count = 0
        for row in old:
            # Not what somebody has noted anew since.
            with suppress(ResourceNotFoundError, ResourceModifiedError):
                self._table.delete_entity(
                    row["PartitionKey"],
                    row["RowKey"],
                    etag=row.metadata["etag"],
                    match_condition=MatchConditions.IfNotModified,
                )
                count += 1
        return count

    def _has_notes(self, job: Job) -> bool:
        now = self._clock()
        has, read = self._known.get(job.name, (False, None))
        if read is None or now - read >= _KNOWN_FOR.total_seconds():
            has = self._find(_JOBS_WITH_NOTES, _digest(job.name)) is not None
            # As of before the request: it must not seem newer than it is.
            self._known[job.name] = (has, now)
        return has

    def _find(self, partition: str, row: str) -> Any:  # noqa: ANN401 - the SDK's entity, with its etag
        try:
            return self._table.get_entity(partition, row)
        except ResourceNotFoundError as error:
            if getattr(error, "error_code", None) == TableErrorCode.TABLE_NOT_FOUND:
                raise
            return None

    def _write(self, job: Job, message: QueueMessage, noted: Any) -> bool:  # noqa: ANN401 - as above
        """Write unless somebody else has since `noted` was read.

        First that there is a note, then the note: whoever is interrupted in between starts again.
        """
        there_is_one = {"PartitionKey": _JOBS_WITH_NOTES, "RowKey": _digest(job.name)}
        self._table.upsert_entity(there_is_one, mode=UpdateMode.MERGE)
        partition, key = place_of(job.name, message.source_key)
        row = {
            "PartitionKey": partition,
            "RowKey": key,
            "ChangeTracker": message.change_tracker,
            "NotedAt": self._now(),
        }
        try:
            if noted is None:
                self._table.create_entity(row)
            else:
                self._table.update_entity(
                    row,
                    mode=UpdateMode.REPLACE,
                    etag=noted.metadata["etag"],
                    match_condition=MatchConditions.IfNotModified,
                )
        except (ResourceExistsError, ResourceModifiedError, ResourceNotFoundError):
            return False
        return True


def place_of(job_name: str, source_key: str) -> tuple[str, str]:
    """Return the partition and the row of the note about a record."""
    digest = _digest(f"{job_name}\n{source_key}")
    return digest[:_PARTITION_DIGITS], digest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_after(job: Job, one: str, other: str) -> bool:
    def value(text: str) -> WatermarkValue:
        return WatermarkValue.initialize(job.cursor.type, text)

    return value(one).is_after(value(other))
