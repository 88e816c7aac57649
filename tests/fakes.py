"""Stateful stand-ins for what lies outside the process, each true to the real part's contract."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Record
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import (
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import TableEntity, UpdateMode
from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.exceptions import ServiceBusError
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from models.configuration import Configuration, Response
from models.filter import Filter
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from services.amqp_properties import TypedValue
from services.metrics import MetricsService
from services.operation.metric_export import meter_of
from services.processing.delivery import Delivery
from services.processing.lock_renewal import Lock
from tests.builders import NOW


class MemoryMetrics:
    """The real counters, on a meter that keeps what they count."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.meter = meter_of(self._reader, "tests")
        self.service = MetricsService(self.meter)

    def values(self, name: str) -> dict[tuple[object, ...], int | float]:
        """Return what a metric stands at, by the values of its attributes, in order of name."""
        data = self._reader.get_metrics_data()
        found: dict[tuple[object, ...], int | float] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        found |= dict(map(_by_attributes, metric.data.data_points))
        return found


def _by_attributes(point: object) -> tuple[tuple[object, ...], int | float]:
    assert isinstance(point, NumberDataPoint)
    attributes = dict(point.attributes or {})
    return tuple(attributes[key] for key in sorted(attributes)), point.value


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
    """Takes note of what it settles; it fails where it is told that locks are lost."""

    def __init__(self) -> None:
        self.abandoned: list[tuple[Delivery, Record[str, str | int]]] = []
        self.dead_lettered: list[tuple[Delivery, str, Record[str, str | int]]] = []
        self.locks_are_lost = False

    def abandon(self, delivery: Delivery, properties: Record[str, str | int]) -> bool:
        self.abandoned.append((delivery, properties))
        return not self.locks_are_lost

    def dead_letter(
        self, delivery: Delivery, reason: str, text: str, properties: Record[str, str | int]
    ) -> bool:
        assert text == properties["ErrorMessage"]
        self.dead_lettered.append((delivery, reason, properties))
        return not self.locks_are_lost


class FixedOriginals:
    """Knows the types of these properties, of whatever message."""

    def __init__(self) -> None:
        self.typed: dict[str, TypedValue] = {}

    def foreign(self, _delivery: Delivery) -> dict[str, TypedValue]:
        return self.typed


class TimedLock(Lock):
    """A lock whose waits move a clock instead of taking time."""

    def __init__(self, delivery: Delivery, clock: Clock) -> None:
        super().__init__(delivery)
        self._clock = clock

    def wait(self, delay: timedelta) -> None:
        self._clock.now += delay
        self.check()


class TimedLocks:
    """Keeps one lock; a test may lose it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lock: TimedLock | None = None

    @contextmanager
    def keep(self, delivery: Delivery) -> Iterator[Lock]:
        self.lock = TimedLock(delivery, self._clock)
        yield self.lock
        self.lock = None

    def lose(self) -> None:
        assert self.lock is not None
        self.lock.lose()


class RecordingPost:
    """Holds what was posted, by queue."""

    def __init__(self) -> None:
        self.posted: dict[str, list[ServiceBusMessage]] = {}
        self.error: Exception | None = None

    def post(self, queue_name: str, message: ServiceBusMessage) -> None:
        if self.error is not None:
            raise self.error
        self.posted.setdefault(queue_name, []).append(message)


class MemoryTable:
    """One table; merges as Azure Tables does, and refuses what Azure Tables refuses."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], TableEntity] = {}
        self.queries = 0
        self.reads = 0
        self._writes = 0

    def create_table(self) -> None:
        if self.rows:
            raise ResourceExistsError

    def get_entity(self, partition: str, row: str) -> TableEntity:
        self.reads += 1
        try:
            return self.rows[partition, row]
        except KeyError:
            raise ResourceNotFoundError from None

    def upsert_entity(self, entity: dict[str, Any], mode: UpdateMode) -> None:
        assert mode is UpdateMode.MERGE
        for value in entity.values():
            assert not isinstance(value, str) or len(value.encode("utf-16-le")) <= 65_536
        key = entity["PartitionKey"], entity["RowKey"]
        self._put(key, {**self.rows.get(key, {}), **entity})

    def create_entity(self, entity: dict[str, Any]) -> None:
        key = entity["PartitionKey"], entity["RowKey"]
        if key in self.rows:
            raise ResourceExistsError
        self._put(key, entity)

    def update_entity(
        self,
        entity: dict[str, Any],
        *,
        mode: UpdateMode,
        etag: str,
        match_condition: MatchConditions,
    ) -> None:
        assert (mode, match_condition) == (UpdateMode.REPLACE, MatchConditions.IfNotModified)
        key = entity["PartitionKey"], entity["RowKey"]
        if self.get_entity(*key).metadata["etag"] != etag:
            raise ResourceModifiedError
        self._put(key, entity)

    def delete_entity(
        self, partition: str, row: str, *, etag: str, match_condition: MatchConditions
    ) -> None:
        assert match_condition is MatchConditions.IfNotModified
        if self.get_entity(partition, row).metadata["etag"] != etag:
            raise ResourceModifiedError
        del self.rows[partition, row]

    def _put(self, key: tuple[str, str], entity: dict[str, Any]) -> None:
        self._writes += 1
        self.rows[key] = TableEntity(entity)
        moment = datetime.now(UTC)
        self.rows[key]._metadata = {"etag": f"etag-{self._writes}", "timestamp": moment}  # noqa: SLF001 - as the SDK does

    def query_entities(
        self, query: str, parameters: dict[str, Any] | None = None
    ) -> Iterator[TableEntity]:
        self.queries += 1
        if query == "Timestamp lt @until":
            assert parameters is not None
            until = parameters["until"]
            rows = list(self.rows.values())
            return (row for row in rows if row.metadata["timestamp"] < until)
        partition = query.removeprefix("PartitionKey eq '").removesuffix("'")
        return (row for (owner, _), row in self.rows.items() if owner == partition)


class MemoryBlobs:
    """One container of blobs; each write changes the etag and the time, whatever it writes."""

    def __init__(self, now: Callable[[], datetime] = lambda: NOW) -> None:
        self.blobs: dict[str, bytes] = {}
        self.metadata: dict[str, dict[str, str]] = {}
        self.on_download: Callable[[], object] = lambda: None
        self._now = now
        self._etags: dict[str, str] = {}
        self._modified: dict[str, datetime] = {}
        self._writes = 0

    def exists(self) -> bool:
        return True

    def upload_blob(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        assert overwrite or name not in self.blobs
        self.blobs[name] = content
        self._written(name, {})

    def download_blob(self, name: str) -> "MemoryDownload":
        self.on_download()
        if name not in self.blobs:
            raise ResourceNotFoundError
        return MemoryDownload(self.blobs[name])

    def delete_blob(
        self, name: str, *, etag: str = "", match_condition: MatchConditions | None = None
    ) -> None:
        self._check(name, etag, match_condition)
        del self.blobs[name]

    def list_blobs(
        self, *, name_starts_with: str = "", include: Iterable[str] = ()
    ) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                name=name,
                etag=self._etags[name],
                last_modified=self._modified[name],
                metadata=dict(self.metadata[name]) if "metadata" in include else None,
            )
            for name in sorted(self.blobs)
            if name.startswith(name_starts_with)
        ]

    def get_blob_client(self, name: str) -> "MemoryBlob":
        return MemoryBlob(self, name)

    def set_metadata(
        self, name: str, metadata: dict[str, str], etag: str, condition: MatchConditions | None
    ) -> None:
        self._check(name, etag, condition)
        self._written(name, metadata)

    def _check(self, name: str, etag: str, condition: MatchConditions | None) -> None:
        if name not in self.blobs:
            raise ResourceNotFoundError
        assert condition in {None, MatchConditions.IfNotModified}
        if condition and etag != f'"{self._etags[name]}"':
            raise ResourceModifiedError

    def _written(self, name: str, metadata: dict[str, str]) -> None:
        self._writes += 1
        self._etags[name] = f"etag-{self._writes}"
        self._modified[name] = self._now()
        self.metadata[name] = dict(metadata)


class MemoryBlob:
    def __init__(self, container: MemoryBlobs, name: str) -> None:
        self._container = container
        self._name = name

    def set_blob_metadata(
        self,
        metadata: dict[str, str],
        *,
        etag: str = "",
        match_condition: MatchConditions | None = None,
    ) -> None:
        self._container.set_metadata(self._name, metadata, etag, match_condition)


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
        #: How many sends fail before they work again.
        self.failures = 0
        #: Bodies that the broker does not take; it refuses a batch for one of them.
        self.refused: set[bytes] = set()
        self.before_send: Callable[[], object] = lambda: None
        self.breaks_on_close = False
        self._batch_bytes = batch_bytes

    def bodies(self, queue: str) -> list[bytes]:
        return [b"".join(sent.body) for batch in self.sent.get(queue, []) for sent in batch]

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

    def send_messages(self, batch: ServiceBusMessageBatch, *, timeout: float | None = None) -> None:
        assert timeout is None or timeout > 0
        if self._bus.failing or self._bus.failures:
            self._bus.failures = max(0, self._bus.failures - 1)
            msg = "the broker is away"
            raise ConnectionError(msg)
        self._bus.before_send()
        messages = list(batch._messages)  # noqa: SLF001 - no public access
        if any(b"".join(message.body) in self._bus.refused for message in messages):
            raise ServiceBusError(message="refused")
        if messages:
            self._bus.sent.setdefault(self._queue, []).append(messages)

    def close(self) -> None:
        if self._bus.breaks_on_close:
            msg = "the link is broken"
            raise ConnectionError(msg)


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
    """A target that holds what was upserted, or fails, and answers with `number` where asked."""

    def __init__(self, error: Exception | None = None) -> None:
        self.records: dict[str, QueueMessage] = {}
        self.actions: list[tuple[str, QueueMessage]] = []
        self.calls = 0
        self.error = error
        self.on_call: Callable[[], None] = lambda: None

    def upsert(
        self, message: QueueMessage, _mapping: Mapping, _job: Job, response: Response | None
    ) -> QueueMessage | None:
        self._fail_where_told_to()
        self.records[message.source_key] = message
        if response is None:
            return None
        return replace(message, job_name=response.job.name, fields={"erp_number": "N1"})

    def delete(self, message: QueueMessage, _mapping: Mapping, _job: Job) -> None:
        self._fail_where_told_to()
        self.records.pop(message.source_key, None)

    def invoke_action(self, message: QueueMessage, job: Job) -> None:
        self._fail_where_told_to()
        assert job.action is not None
        self.actions.append((job.action.name, message))

    def _fail_where_told_to(self) -> None:
        self.calls += 1
        self.on_call()
        if self.error is not None:
            raise self.error
