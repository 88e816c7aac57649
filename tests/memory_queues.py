"""Queues in memory, as far as who looks after them needs them, with the broker's habits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event

from azure.servicebus import ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import ServiceBusConnectionError

from models.queues import IGNORED_QUEUE

Place = tuple[str, ServiceBusSubQueue | None]


@dataclass
class MemoryMessage:
    sequence_number: int
    content: bytes
    expires_at_utc: datetime | None = None
    state: ServiceBusMessageState = ServiceBusMessageState.ACTIVE
    locked: bool = False
    delivery_count: int = 0
    body_type: AmqpMessageBodyType = AmqpMessageBodyType.DATA

    @property
    def body(self) -> Iterator[bytes]:
        return iter([self.content])


@dataclass
class MemoryQueues:
    """A message expires only when somebody receives; peeking shows it until then.

    `on_peek` is called after every page: a test moves messages there.
    """

    now: Callable[[], datetime]
    on_peek: Callable[[], None] = lambda: None
    failing: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)
    messages: dict[Place, list[MemoryMessage]] = field(default_factory=dict)
    peeks: int = 0
    page: int = 100
    released: Event = field(default_factory=Event)
    _last: int = 0

    def send(
        self,
        queue: str,
        content: bytes = b"",
        *,
        life: timedelta = timedelta(days=14),
        sub_queue: ServiceBusSubQueue | None = None,
    ) -> MemoryMessage:
        self._last += 1
        message = MemoryMessage(self._last, content, self.now() + life)
        self.messages.setdefault((queue, sub_queue), []).append(message)
        return message

    def move(self, source: Place, target: Place) -> None:
        """Send a copy to `target`, then remove the first message of `source`."""
        if self.messages.get(source):
            original = self.messages[source][0]
            self.send(target[0], original.content, sub_queue=target[1])
            self.messages[source].remove(original)

    def at(self, queue: str, sub_queue: ServiceBusSubQueue | None = None) -> list[MemoryMessage]:
        return self.messages.get((queue, sub_queue), [])

    @contextmanager
    def open(self) -> Iterator["MemoryQueues"]:
        yield self

    @contextmanager
    def get_queue_receiver(
        self, queue: str, *, sub_queue: ServiceBusSubQueue | None = None
    ) -> Iterator["MemoryReceiver"]:
        if queue in self.failing:
            raise ServiceBusConnectionError(message="the broker is away")
        if queue in self.hanging:
            self.released.wait()
        yield MemoryReceiver(self, (queue, sub_queue))


class MemoryReceiver:
    def __init__(self, queues: MemoryQueues, place: Place) -> None:
        self._queues = queues
        self._place = place

    def peek_messages(
        self, max_message_count: int, *, sequence_number: int, timeout: float
    ) -> list[MemoryMessage]:
        assert timeout > 0
        self._queues.peeks += 1
        page = [m for m in self._messages() if m.sequence_number >= sequence_number]
        page = page[: min(max_message_count, self._queues.page)]
        self._queues.on_peek()
        return page

    def receive_messages(self, count: int, *, max_wait_time: float) -> list[MemoryMessage]:
        assert max_wait_time > 0
        received: list[MemoryMessage] = []
        for message in self._messages():
            if message.locked or message.state is not ServiceBusMessageState.ACTIVE:
                continue
            if message.expires_at_utc and message.expires_at_utc <= self._queues.now():
                self._expire(message)
            elif len(received) < count:
                message.locked = True
                received.append(message)
        return received

    def abandon_message(self, message: MemoryMessage) -> None:
        assert message.locked
        message.locked = False
        message.delivery_count += 1

    def _messages(self) -> list[MemoryMessage]:
        return list(self._queues.messages.get(self._place, ()))

    def _expire(self, message: MemoryMessage) -> None:
        queue, sub_queue = self._place
        if queue == IGNORED_QUEUE or sub_queue is not None:
            self._queues.messages[self._place].remove(message)
        else:
            self._queues.move(self._place, (queue, ServiceBusSubQueue.DEAD_LETTER))
