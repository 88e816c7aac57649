"""What the queue model speaks of: messages, settings, and the journal that keeps changes."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol


class LockLostError(Exception):
    """No message is locked under this token: it lapsed, was settled, or never existed."""


class MessageNotFoundError(Exception):
    """No message with this sequence number is in the state that the operation needs."""


class Content(NamedTuple):
    """What the sender gave. Opaque here; the wire splits and joins it."""

    header: bytes
    annotations: bytes
    bare: bytes


class State(IntEnum):
    """A message's state, with the numbers that peeking shows."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class DeadLetter(NamedTuple):
    """Why and whence a message came to a dead-letter queue."""

    reason: str | None
    description: str | None
    source: str


@dataclass(slots=True)
class Message:
    """A message in a queue; `token` and `locked_until` only while it is locked."""

    sequence: int
    content: Content
    message_id: str | None
    enqueued: int
    ttl: int | None
    state: State = State.ACTIVE
    due: int = 0
    delivery_count: int = 0
    dead_letter: DeadLetter | None = None
    token: bytes | None = None
    locked_until: int = 0

    @property
    def expires(self) -> int | None:
        """The time from which the message counts as expired."""
        return None if self.ttl is None else self.enqueued + self.ttl


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """A queue's properties; all times in milliseconds."""

    name: str
    lock_duration: int = 60_000
    max_delivery_count: int = 10
    default_ttl: int | None = None
    dead_letter_expired: bool = False
    duplicate_window: int | None = None


class Journal(Protocol):
    """Where changes go that must survive the process."""

    def put(self, queue: str, message: Message) -> None:
        """Keep `message` as it is when the journal is next written."""

    def remove(self, queue: str, sequence: int) -> None:
        """Forget the message."""

    def advance_sequence(self, queue: str, next_sequence: int) -> None:
        """Never give out a number below `next_sequence` again."""

    def remember(self, queue: str, message_id: str, at: int) -> None:
        """Keep a message id for duplicate detection."""

    def forget(self, queue: str, message_id: str) -> None:
        """Drop a message id that left the duplicate-detection window."""


class Counts(NamedTuple):
    """How many messages are in which state, and their bytes."""

    active: int
    scheduled: int
    size: int
