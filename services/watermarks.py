"""Watermarks in Azure Tables: one row a job, in the partition `watermark`.

The logic of the value is in `models.watermark`; this only stores it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import UpdateMode

if TYPE_CHECKING:
    from azure.data.tables import TableClient

TABLE = "watermarks"

_PARTITION = "watermark"


@dataclass(frozen=True, slots=True)
class StoredWatermark:
    """A job's row; a job that never ran has None in both fields."""

    watermark: str | None = None
    last_cron_run: datetime | None = None


class WatermarkService:
    """Reads and writes rows without etags: the last writer wins.

    `ExecuteJob` may run beside the timer; a stale value is always an older one, which leads to
    repeats, never to gaps.
    """

    def __init__(self, table: "TableClient") -> None:
        self._table = table

    def get_watermark_by_job_name(self, job_name: str) -> StoredWatermark:
        """Return the row of `job_name`, or an empty one that is not stored."""
        try:
            row = self._table.get_entity(_PARTITION, row_key(job_name))
        except ResourceNotFoundError:
            return StoredWatermark()
        return _from_row(row)

    def get_all_watermarks(self) -> dict[str, StoredWatermark]:
        """Return all rows by job name, with one query over the partition."""
        rows = self._table.query_entities(f"PartitionKey eq '{_PARTITION}'")
        return {job_name_of(row["RowKey"]): _from_row(row) for row in rows}

    def update_watermark_by_job_name(
        self, job_name: str, watermark: str, last_cron_run: datetime
    ) -> None:
        """Merge both columns into the job's row; other columns keep what they hold."""
        self._table.upsert_entity(
            {
                "PartitionKey": _PARTITION,
                "RowKey": row_key(job_name),
                "Watermark": watermark,
                "LastCronRun": last_cron_run,
            },
            mode=UpdateMode.MERGE,
        )


def row_key(job_name: str) -> str:
    """Escape, reversibly, what Azure Tables refuses in a key: slashes, `#`, `?`, controls."""
    return quote(job_name, safe=" ").replace("%", "=")


def job_name_of(key: str) -> str:
    """Return the job name that `row_key` escaped."""
    return unquote(key.replace("=", "%"))


def _from_row(row: dict[str, Any]) -> StoredWatermark:
    # An empty text is an operator's reset: it means the same as no value.
    return StoredWatermark(row.get("Watermark") or None, row.get("LastCronRun"))
