"""Stateful stand-ins for what lies outside the process, each true to the real part's contract."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableEntity
from azure.servicebus import ServiceBusMessageBatch

from models.configuration import Configuration
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from services.queue_items import Delivery

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class FixedInitialization:
    """Holds a configuration as if it had been loaded."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def ensure_initialized(self) -> Configuration:
        return self._configuration


class RecordingSettlement:
    def __init__(self) -> None:
        self.abandoned: list[tuple[Delivery, dict[str, str | int]]] = []

    def abandon(self, delivery: Delivery, properties: dict[str, str | int]) -> None:
        self.abandoned.append((delivery, properties))


class MemoryTable:
    """One table; merges as Azure Tables does."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], TableEntity] = {}

    def get_entity(self, partition: str, row: str) -> TableEntity:
        try:
            return self.rows[partition, row]
        except KeyError:
            raise ResourceNotFoundError from None

    def upsert_entity(self, entity: dict[str, Any], mode: object) -> None:
        assert "merge" in str(mode).lower()
        key = entity["PartitionKey"], entity["RowKey"]
        self.rows[key] = TableEntity({**self.rows.get(key, {}), **entity})

    def query_entities(self, query: str) -> Iterator[TableEntity]:
        partition = query.removeprefix("PartitionKey eq '").removesuffix("'")
        return (row for (owner, _), row in self.rows.items() if owner == partition)


class MemoryServiceBus:
    """A client whose senders keep what they sent; batches are the SDK's, with its size limit."""

    def __init__(self, batch_bytes: int = 262_144) -> None:
        self.sent: dict[str, list[list[Any]]] = {}
        self.closed = False
        self.failing = False
        self._batch_bytes = batch_bytes

    def get_queue_sender(self, queue: str) -> "MemorySender":
        return MemorySender(self, queue, self._batch_bytes)

    def close(self) -> None:
        self.closed = True


class MemorySender:
    def __init__(self, bus: MemoryServiceBus, queue: str, batch_bytes: int) -> None:
        self._bus = bus
        self._queue = queue
        self._batch_bytes = batch_bytes

    def create_message_batch(self) -> ServiceBusMessageBatch:
        return ServiceBusMessageBatch(max_size_in_bytes=self._batch_bytes)

    def send_messages(self, batch: ServiceBusMessageBatch) -> None:
        if self._bus.failing:
            msg = "the broker is away"
            raise ConnectionError(msg)
        messages = [message for message in batch._messages]  # noqa: SLF001, C416 - no public access
        self._bus.sent.setdefault(self._queue, []).append(messages)

    def close(self) -> None:
        pass


class ListSource:
    """A source that yields the messages it was given, or fails after them."""

    def __init__(self, messages: Iterable[QueueMessage], error: Exception | None = None) -> None:
        self._messages = list(messages)
        self._error = error
        self.watermarks: list[WatermarkValue] = []

    def retrieve_changes(
        self, _mapping: Mapping, _job: Job, watermark: WatermarkValue
    ) -> Iterator[QueueMessage]:
        self.watermarks.append(watermark)
        yield from self._messages
        if self._error is not None:
            raise self._error


class MemoryTarget:
    """A target that holds what was upserted, or refuses everything."""

    def __init__(self, error: Exception | None = None) -> None:
        self.records: dict[str, QueueMessage] = {}
        self._error = error

    def upsert(self, message: QueueMessage, _mapping: Mapping) -> None:
        if self._error is not None:
            raise self._error
        self.records[message.source_key] = message
