"""Watermarks in Azure Tables: one row a job, in the partition `watermark`.

The logic of the value is in `models.watermark`; this only stores it.
"""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables import UpdateMode

from models.boundary import Boundary
from services.event_log import Action, Subject, log_event

if TYPE_CHECKING:
    from azure.data.tables import TableClient
    from azure.storage.blob import ContainerClient

_LOGGER = logging.getLogger(__name__)

TABLE = "watermarks"

#: Where boundaries go that are too large for their row.
BOUNDARIES = "boundaries"

_PARTITION = "watermark"

#: A text property of Azure Tables holds 64 KB, which is this many characters in UTF-16.
_TEXT_PROPERTY_CHARACTERS = 32_000


@dataclass(frozen=True, slots=True)
class StoredWatermark:
    """A job's row; a job that never ran has None in both fields."""

    watermark: str | None = None
    last_cron_run: datetime | None = None


class WatermarkService:
    """Reads and writes rows without etags: the last writer wins.

    `ExecuteJob` may run beside the timer; a stale value is always an older one, which leads to
    repeats, never to gaps. Every write is a merge of the columns that it is about.
    """

    def __init__(self, table: "TableClient", boundaries: "ContainerClient") -> None:
        self._table = table
        self._boundaries = boundaries

    def prepare_storage(self) -> None:
        """Create what a new storage account lacks."""
        with suppress(ResourceExistsError):
            self._table.create_table()
        if not self._boundaries.exists():
            self._boundaries.create_container()

    def get_watermark_by_job_name(self, job_name: str) -> StoredWatermark:
        """Return the row of `job_name`, or an empty one that is not stored."""
        return _from_row(self._row(job_name))

    def get_all_watermarks(self) -> dict[str, StoredWatermark]:
        """Return all rows by job name, with one query over the partition."""
        return {job_name_of(row["RowKey"]): _from_row(row) for row in self._rows()}

    def get_boundary(self, job_name: str, watermark: str) -> Boundary:
        """Return what was sent at `watermark`; empty where something else is kept, or nothing.

        A boundary that is lost or unreadable costs repeats, so it never fails a run.
        """
        row = self._row(job_name)
        try:
            boundary = self._read_boundary(row)
        except (ValueError, ResourceNotFoundError):
            text = "changes at its watermark repeat once"
            log_event(_LOGGER, logging.WARNING, Action.BOUNDARY_LOST, Subject(job=job_name), text)
            boundary = None
        if boundary is None or boundary.value != watermark:
            return Boundary(watermark)
        return boundary

    def update_watermark_by_job_name(
        self,
        job_name: str,
        watermark: str,
        boundary: Boundary,
        last_cron_run: datetime | None,
    ) -> None:
        """Write where a run arrived; `last_cron_run` is left as it is where it is None."""
        row: dict[str, Any] = {"Watermark": watermark, **self._boundary_columns(job_name, boundary)}
        if last_cron_run is not None:
            row["LastCronRun"] = last_cron_run
        before = self._row(job_name).get("BoundaryBlob")
        self._merge(job_name, row)
        if before and before != row["BoundaryBlob"]:
            self._forget_blob(before)

    def set_watermark(self, job_name: str, watermark: str) -> None:
        """Write a watermark by hand, also before the first run; an empty one starts over."""
        self._merge(job_name, {"Watermark": watermark, "Boundary": "", "BoundaryBlob": ""})

    def _row(self, job_name: str) -> dict[str, Any]:
        try:
            return self._table.get_entity(_PARTITION, row_key(job_name))
        except ResourceNotFoundError:
            return {}

    def _rows(self) -> Iterator[dict[str, Any]]:
        # The SDK follows continuation tokens, also behind an empty page.
        yield from self._table.query_entities(f"PartitionKey eq '{_PARTITION}'")

    def _merge(self, job_name: str, columns: dict[str, Any]) -> None:
        keys = {"PartitionKey": _PARTITION, "RowKey": row_key(job_name)}
        self._table.upsert_entity({**keys, **columns}, mode=UpdateMode.MERGE)

    def _read_boundary(self, row: dict[str, Any]) -> Boundary | None:
        if text := row.get("Boundary"):
            return Boundary.decode(text)
        if blob := row.get("BoundaryBlob"):
            return Boundary.decode(self._boundaries.download_blob(blob).readall().decode())
        return None

    def _boundary_columns(self, job_name: str, boundary: Boundary) -> dict[str, str]:
        text = boundary.encode()
        if len(text) <= _TEXT_PROPERTY_CHARACTERS:
            return {"Boundary": text, "BoundaryBlob": ""}
        # A new name for each content: the row decides which one counts.
        content = text.encode()
        blob = f"{row_key(job_name)}/{hashlib.sha256(content).hexdigest()}"
        self._boundaries.upload_blob(blob, content, overwrite=True)
        return {"Boundary": "", "BoundaryBlob": blob}

    def _forget_blob(self, blob: str) -> None:
        try:
            self._boundaries.delete_blob(blob)
        except ResourceNotFoundError:
            return  # a run beside this one was faster


def row_key(job_name: str) -> str:
    """Escape, reversibly, what Azure Tables refuses in a key: slashes, `#`, `?`, controls."""
    return quote(job_name, safe=" ").replace("%", "=")


def job_name_of(key: str) -> str:
    """Return the job name that `row_key` escaped."""
    return unquote(key.replace("=", "%"))


def _from_row(row: dict[str, Any]) -> StoredWatermark:
    # An empty text is an operator's reset: it means the same as no value.
    return StoredWatermark(row.get("Watermark") or None, row.get("LastCronRun"))
