"""Remembers what was deleted, so that an older change that comes late does not bring it back.

A row that is gone cannot say how new it was. So a deletion is noted, in the Azure table
`deletions`, *before* the target deletes; and an upsert looks for a later deletion *after* it has
written. Then the row is gone in the end, whichever comes first: either the upsert finds the note,
or the target deletes after the upsert. See docs/decisions/0007-deletions-are-remembered.md.
"""

import hashlib
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode

from delivery.errors import ConfigurationError, UnavailableError
from models.job import Job
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue

if TYPE_CHECKING:
    from azure.data.tables import TableClient

DELETIONS = "deletions"

_ATTEMPTS = 5
_PARTITION_DIGITS = 2


class DeletionService:
    """Notes deletions by job and record. The table holds hashes and times, and nobody's data."""

    def __init__(self, table: "TableClient") -> None:
        self._table = table

    def prepare_storage(self) -> None:
        """Create what a new storage account lacks."""
        with suppress(ResourceExistsError):
            self._table.create_table()

    def note(self, job: Job, message: QueueMessage) -> None:
        """Note the deletion that `message` is, unless a later one is noted already."""
        for _ in range(_ATTEMPTS):
            noted = self._find(job, message)
            if noted and not _is_after(job, message.change_tracker, noted["ChangeTracker"]):
                return
            if self._write({**_keys(job, message), "ChangeTracker": message.change_tracker}, noted):
                return
        msg = f"table {DELETIONS!r}: others kept writing the row of this record; it is tried again"
        raise UnavailableError(msg)

    def later_than(self, job: Job, message: QueueMessage) -> str | None:
        """Return the change tracker of a deletion newer than `message`, None without one."""
        noted = self._find(job, message)
        if noted and _is_after(job, noted["ChangeTracker"], message.change_tracker):
            return str(noted["ChangeTracker"])
        return None

    def forget_old(self, until: datetime) -> int:
        """Remove what was noted before `until`; return how much that was."""
        old = self._table.query_entities("Timestamp lt @until", parameters={"until": until})
        count = 0
        for row in old:
            with suppress(ResourceNotFoundError):
                self._table.delete_entity(row["PartitionKey"], row["RowKey"])
                count += 1
        return count

    def _find(self, job: Job, message: QueueMessage) -> Any:  # noqa: ANN401 - the SDK's entity, with its etag
        keys = _keys(job, message)
        try:
            return self._table.get_entity(keys["PartitionKey"], keys["RowKey"])
        except ResourceNotFoundError:
            return None

    def _write(self, row: dict[str, str], noted: Any) -> bool:  # noqa: ANN401 - as above
        """Write unless somebody else has since `noted` was read."""
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


def _keys(job: Job, message: QueueMessage) -> dict[str, str]:
    digest = hashlib.sha256(f"{job.name}\n{message.source_key}".encode()).hexdigest()
    return {"PartitionKey": digest[:_PARTITION_DIGITS], "RowKey": digest}


def _is_after(job: Job, one: str, other: str) -> bool:
    def value(text: str) -> WatermarkValue:
        return WatermarkValue.initialize(job.cursor.type, text)

    try:
        return value(one).is_after(value(other))
    except ValueError:
        msg = (
            f"job {job.name!r}: the watermark type {job.cursor.type} does not fit the values of "
            "its field; correct the job's watermark.type"
        )
        raise ConfigurationError(msg) from None
