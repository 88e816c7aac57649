"""What every connector offers, as a source and as a target."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from connectors.fields import CachingLookup, Lookup
from connectors.serialization import Serializer
from models.configuration import Response
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
    def upsert(
        self, message: QueueMessage, mapping: Mapping, job: Job, response: Response | None = None
    ) -> QueueMessage | None:
        """Write the record: insert it, or update it where its key exists.

        Fields that the message lacks keep what the target holds. Where `response` is given, return
        its message, made of the record as the target holds it now; None where that is null in all
        fields that the message lacks. Raise TransitiveError where the record refers to another one
        that is not there yet, or one that makes its key has no value yet. Raise OutdatedError where
        the job skips what is outdated and the target holds a strictly newer change, and where the
        message is `update_only` and the record is not there.
        """

    @abstractmethod
    def delete(self, message: QueueMessage, mapping: Mapping, job: Job) -> None:
        """Remove the record; one that is gone already is fine.

        Raise ConfigurationError where several records may have these keys. Raise OutdatedError as
        `upsert` does; how old the deletion is says its change tracker.
        """

    @abstractmethod
    def invoke_action(self, message: QueueMessage, job: Job) -> None:
        """Call the job's action with the message's keys and fields as named arguments.

        Raise ConfigurationError where the job has no action any more, or the target does not
        know it.
        """

    @abstractmethod
    def check(self) -> None:
        """Return where the system answers; raise a DeliveryError within seconds if not."""

    def lookup(self) -> Lookup | None:
        """Return what source resolvers look references up with, None where the system cannot."""
        return None

    def serializer(self, mapping: Mapping, job: Job) -> Serializer:
        """Return what turns this source's records into the messages of one run."""
        lookup = self.lookup()
        return Serializer(mapping, job, None if lookup is None else CachingLookup(lookup))
