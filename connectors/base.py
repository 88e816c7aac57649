"""What all connectors share: how a source record becomes a queue message."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from collections.abc import Mapping as Record
from typing import Any

from connectors.values import to_key, to_value
from models.job import Job
from models.mapping import FieldPair, Mapping
from models.queue_message import JobActionType, QueueMessage, Value
from models.watermark import WatermarkValue


class ConnectorBase(ABC):
    """One remote system, as a source and as a target."""

    @abstractmethod
    def retrieve_changes(
        self, mapping: Mapping, job: Job, watermark: WatermarkValue
    ) -> Iterator[QueueMessage]:
        """Yield what changed at or after `watermark`, in the order of the cursor.

        A change at the watermark itself is read again: a record that became visible late, with the
        same cursor value, would be lost otherwise. Records without a cursor value are not read.
        """

    @abstractmethod
    def upsert(self, message: QueueMessage, mapping: Mapping) -> None:
        """Write the record: insert it, or update it where its key exists."""

    def serialize(self, record: Record[str, Any], mapping: Mapping, job: Job) -> QueueMessage:
        """Build the message for one source record: its keys, then its fields."""
        return QueueMessage(
            job_name=job.name,
            action=JobActionType.NEW_UPDATE,
            source_key=to_key([record[pair.source] for pair in mapping.keys]),
            change_tracker=str(to_value(record[job.watermark.field])),
            keys=_pick(record, mapping.keys),
            fields=_pick(record, mapping.fields),
        )


def _pick(record: Record[str, Any], pairs: tuple[FieldPair, ...]) -> dict[str, Value]:
    return {pair.target: to_value(record[pair.source]) for pair in pairs}
