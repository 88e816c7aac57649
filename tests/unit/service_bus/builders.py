"""Builders and doubles that the unit tests of the Service Bus emulator share."""

from itertools import count
from typing import Any

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.messages import Content, Message, QueueSettings
from devstack.service_bus.queue import Queue

NOW = 1_000_000


class RecordingJournal:
    """A journal that holds what a store would hold."""

    def __init__(self) -> None:
        self.kept: dict[int, Message] = {}
        self.next_sequence = 1
        self.history: dict[str, int] = {}

    def put(self, queue: str, message: Message) -> None:
        assert queue
        self.kept[message.sequence] = message

    def remove(self, queue: str, sequence: int) -> None:
        assert queue
        del self.kept[sequence]

    def advance_sequence(self, queue: str, next_sequence: int) -> None:
        assert queue
        self.next_sequence = next_sequence

    def remember(self, queue: str, message_id: str, at: int) -> None:
        assert queue
        self.history[message_id] = at

    def forget(self, queue: str, message_id: str) -> None:
        assert queue
        del self.history[message_id]


def a_queue(journal: RecordingJournal | None = None, **settings: Any) -> Queue:
    numbers = count(1)
    defaults: dict[str, Any] = {"name": "orders", "lock_duration": 1000, "max_delivery_count": 3}
    return Queue(
        QueueSettings(**defaults | settings),
        journal or RecordingJournal(),
        new_token=lambda: next(numbers).to_bytes(16),
    )


def a_content(text: str = "body") -> Content:
    body = amqp.described(0x75, amqp.binary(text.encode()))
    return Content(amqp.NULL + amqp.NULL, b"", body)


def sequences(messages: list[Message]) -> list[int]:
    return [message.sequence for message in messages]


def token_of(message: Message | None) -> bytes:
    assert message is not None
    assert message.token is not None
    return message.token
