"""When `GetChanges` ended last: timers have been seen to stop silently after a deployment."""

import logging
from datetime import datetime
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import UpdateMode

if TYPE_CHECKING:
    from azure.data.tables import TableClient

_LOGGER = logging.getLogger(__name__)

_PARTITION = "heartbeat"
_ROW = "GetChanges"


class HeartbeatService:
    """One row in the table of the watermarks, in a partition of its own."""

    def __init__(self, table: "TableClient") -> None:
        self._table = table

    def beat(self, at: datetime) -> None:
        """Write that a tick ended; a failure is logged, since the tick did its work."""
        row = {"PartitionKey": _PARTITION, "RowKey": _ROW, "EndedAt": at}
        try:
            self._table.upsert_entity(row, mode=UpdateMode.MERGE)
        except AzureError as error:
            _LOGGER.warning("GetChanges ended, which could not be noted: %s", type(error).__name__)

    def last(self) -> datetime | None:
        """Return when a tick ended last; None where none ever did."""
        try:
            at = self._table.get_entity(_PARTITION, _ROW).get("EndedAt")
        except ResourceNotFoundError:
            return None
        return at if isinstance(at, datetime) else None
