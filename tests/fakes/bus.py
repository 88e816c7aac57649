"""What the broker does for the app: it takes messages, settles them and locks them."""

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Record
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.exceptions import ServiceBusError

from services.amqp_properties import TypedValue
from services.processing.delivery import Delivery
from services.processing.lock_renewal import Lock
from tests.fakes.services import Clock


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


class RecordingPost:
    """Holds what was posted, by queue."""

    def __init__(self) -> None:
        self.posted: dict[str, list[ServiceBusMessage]] = {}
        self.error: Exception | None = None

    def post(self, queue_name: str, message: ServiceBusMessage) -> None:
        if self.error is not None:
            raise self.error
        self.posted.setdefault(queue_name, []).append(message)


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
