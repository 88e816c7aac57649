"""Messages as a broker encodes them, and a broker in memory that keeps them."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from azure.servicebus._pyamqp._decode import decode_payload
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp.message import Header, Message, Properties

from dead_letter_mover.letters import Letter
from dead_letter_mover.mover import Locked
from delivery.errors import RejectedError
from models.queue_message import JobActionType, QueueMessage
from tests.builders import NOW

_MILLISECONDS = 1_000


def a_body(key: str = "D1", tracker: str = "2026-11-30T10:00:00Z", **changes: Any) -> bytes:
    """Return the body of a change, as detection makes it."""
    message = QueueMessage("orders", JobActionType.NEW_UPDATE, key, tracker, {"id": key})
    for name, value in changes.items():
        setattr(message, name, value)
    return message.to_body()


def an_encoded(  # noqa: PLR0913 - a message has many parts
    number: int = 1,
    error: str | None = "refused",
    *,
    body: bytes | None = None,
    beside: dict[str, Any] | None = None,
    message_id: Any = "m-1",
    job: str | None = "orders",
    enqueued: datetime = NOW,
    **others: Any,
) -> bytes:
    """Return a dead letter; `beside` are further properties, `others` sections as the SDK's."""
    known = {"JobName": job, "SourceKey": "D1", "ErrorMessage": error, **(beside or {})}
    moment = int(enqueued.timestamp() * _MILLISECONDS)
    found: dict[str, Any] = {
        "header": Header(durable=True, ttl=1_000, delivery_count=3),
        "message_annotations": {
            b"x-opt-sequence-number": {"TYPE": "LONG", "VALUE": number},
            b"x-opt-enqueued-time": {"TYPE": "TIMESTAMP", "VALUE": moment},
            b"x-opt-locked-until": {"TYPE": "TIMESTAMP", "VALUE": 1},
        },
        "properties": Properties(message_id=message_id, content_type="application/json"),
        "application_properties": {n: v for n, v in known.items() if v is not None},
        "data": [a_body() if body is None else body],
        **others,
    }
    output = bytearray()
    encode_payload(output, Message(**found))
    return bytes(output)


def decoded(encoded: bytes) -> Any:
    """Return what the SDK makes of a message."""
    return decode_payload(memoryview(encoded))


@dataclass
class MemoryBroker:
    """One queue that locks and hands out in order, and the queues that it sends to.

    `before_sending` is called with queue and messages: a test fails there. Messages larger than
    `largest` are refused.
    """

    waiting: dict[int, bytes] = field(default_factory=dict)
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    locks: dict[int, uuid.UUID] = field(default_factory=dict)
    renewed: list[int] = field(default_factory=list)
    largest: int = 10_000
    before_sending: Callable[[str, Sequence[bytes]], None] = lambda *_: None
    after_completing: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, *messages: bytes) -> "MemoryBroker":
        return cls({Letter.of(message).sequence_number: message for message in messages})

    def letters(self) -> Iterator[Letter]:
        return map(Letter.of, list(self.waiting.values()))

    def receive(self, most: int) -> list[Locked]:
        free = [number for number in sorted(self.waiting) if number not in self.locks][:most]
        self.locks |= {number: uuid.uuid4() for number in free}
        return [Locked(number, self.locks[number]) for number in free]

    def encoded(self, sequence_numbers: Sequence[int]) -> dict[int, bytes]:
        return {n: self.waiting[n] for n in sequence_numbers if n in self.waiting}

    def send(self, queue: str, messages: Sequence[bytes]) -> None:
        self.before_sending(queue, messages)
        if any(len(message) > self.largest for message in messages):
            msg = "it is larger than the queue takes"
            raise RejectedError(msg)
        self.sent += [(queue, message) for message in messages]

    def complete(self, messages: Sequence[Locked]) -> list[Locked]:
        late = []
        for message in messages:
            if self.locks.get(message.sequence_number) == message.lock_token:
                del self.locks[message.sequence_number], self.waiting[message.sequence_number]
            else:
                late.append(message)
        self.after_completing()
        return late

    def give_back(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        self.locks = {n: token for n, token in self.locks.items() if token not in lock_tokens}

    def renew(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        self.renewed.append(len(lock_tokens))

    def expire_locks(self) -> None:
        self.locks.clear()
