"""Stateful stand-ins for what lies outside the process, each true to the real part's contract."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableEntity, UpdateMode
from azure.servicebus import ServiceBusMessageBatch

from models.configuration import Configuration
from models.filter import Filter
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from services.processing.queue_items import Delivery

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class FixedInitialization:
    """Holds a configuration as if it had been loaded."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def ensure_initialized(self) -> Configuration:
        return self._configuration

    def refresh(self) -> Configuration:
        return self._configuration

    def configuration_with_job(self, _job_name: str) -> Configuration:
        return self._configuration


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class RecordingSettlement:
    def __init__(self) -> None:
        self.abandoned: list[tuple[Delivery, dict[str, str | int]]] = []

    def abandon(self, delivery: Delivery, properties: dict[str, str | int]) -> None:
        self.abandoned.append((delivery, properties))


class MemoryTable:
    """One table; merges as Azure Tables does, and refuses what Azure Tables refuses."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], TableEntity] = {}
        self.queries = 0

    def create_table(self) -> None:
        if self.rows:
            raise ResourceExistsError

    def get_entity(self, partition: str, row: str) -> TableEntity:
        try:
            return self.rows[partition, row]
        except KeyError:
            raise ResourceNotFoundError from None

    def upsert_entity(self, entity: dict[str, Any], mode: UpdateMode) -> None:
        assert mode is UpdateMode.MERGE
        for value in entity.values():
            assert not isinstance(value, str) or len(value.encode("utf-16-le")) <= 65_536
        key = entity["PartitionKey"], entity["RowKey"]
        self.rows[key] = TableEntity({**self.rows.get(key, {}), **entity})

    def query_entities(self, query: str) -> Iterator[TableEntity]:
        self.queries += 1
        partition = query.removeprefix("PartitionKey eq '").removesuffix("'")
        return (row for (owner, _), row in self.rows.items() if owner == partition)


class MemoryBlobs:
    """One container of blobs, with etags that change with every write."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self._etags: dict[str, str] = {}
        self._writes = 0

    def exists(self) -> bool:
        return True

    def upload_blob(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        assert overwrite or name not in self.blobs
        self._writes += 1
        self.blobs[name] = content
        self._etags[name] = f"etag-{self._writes}"

    def download_blob(self, name: str) -> "MemoryDownload":
        if name not in self.blobs:
            raise ResourceNotFoundError
        return MemoryDownload(self.blobs[name])

    def delete_blob(self, name: str) -> None:
        if name not in self.blobs:
            raise ResourceNotFoundError
        del self.blobs[name]

    def list_blobs(self, *, name_starts_with: str) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(name=name, etag=self._etags[name])
            for name in sorted(self.blobs)
            if name.startswith(name_starts_with)
        ]


class MemoryDownload:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def readall(self) -> bytes:
        return self._content


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
    """A source that yields the messages it was given at or after the watermark, or fails at last.

    `on_message` is called before each message: a test moves the clock there, or changes the list.
    """

    def __init__(
        self,
        messages: Iterable[QueueMessage],
        error: Exception | None = None,
        *,
        can_stop_midway: bool = True,
        on_message: Callable[[], None] = lambda: None,
    ) -> None:
        self.messages = list(messages)
        self.can_stop_midway = can_stop_midway
        self.watermarks: list[str] = []
        self.conditions: list[Filter | None] = []
        self._error = error
        self._on_message = on_message

    def retrieve_changes(
        self, _mapping: Mapping, _job: Job, watermark: WatermarkValue, condition: Filter | None
    ) -> Iterator[QueueMessage]:
        self.watermarks.append(watermark.text)
        self.conditions.append(condition)
        for message in list(self.messages):
            if watermark.is_after(WatermarkValue(watermark.type, message.change_tracker)):
                continue
            self._on_message()
            yield message
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

    def delete(self, message: QueueMessage, _mapping: Mapping) -> None:
        self.records.pop(message.source_key, None)
