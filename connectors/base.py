"""What every connector offers, as a source and as a target."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from connectors.fields import Lookup
from connectors.serialization import Serializer
from models.filter import Filter
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue


class ConnectorBase(ABC):
    """One remote system. Its methods raise `delivery.errors`, and nothing of its own."""

    #: Whether a run may end between two messages and go on from the last one's change tracker.
    can_stop_midway: ClassVar[bool]

    @abstractmethod
    def retrieve_changes(
        self, mapping: Mapping, job: Job, watermark: WatermarkValue, condition: Filter | None
    ) -> Iterator[QueueMessage]:
        """Yield what changed at or after `watermark`, in the order of the cursor.

        A change at the watermark itself is read again: a record that became visible late, with the
        same cursor value, would be lost otherwise. Records without a cursor value are not read.
        """

    @abstractmethod
    def upsert(self, message: QueueMessage, mapping: Mapping) -> None:
        """Write the record: insert it, or update it where its key exists.

        Fields that the message lacks keep what the target holds. Raise TransitiveError where the
        record refers to another one that is not there yet.
        """

    @abstractmethod
    def delete(self, message: QueueMessage, mapping: Mapping) -> None:
        """Remove the record; one that is gone already is fine."""

    def lookup(self) -> Lookup | None:
        """Return what source resolvers look references up with, None where the system cannot."""
        return None

    def serializer(self, mapping: Mapping, job: Job) -> Serializer:
        """Return what turns this source's records into the messages of one run."""
        return Serializer(mapping, job, self.lookup())
