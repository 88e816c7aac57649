"""What the checks need of a queue, its dead-letter queue and its namespace."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message to send; the values of `properties` are encoded, so that types can be chosen."""

    message_id: str
    body: bytes = b"probe"
    properties: Mapping[str, bytes] = field(default_factory=dict)
    time_to_live: timedelta | None = None
    due: datetime | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A message that is locked for us.

    `failures` is AMQP's delivery count: earlier deliveries that failed. `message_id` is empty where
    the message could not be decoded. `delivery` is the adapter's own.
    """

    number: int
    lock_token: uuid.UUID
    message_id: str
    failures: int
    enqueued: datetime | None
    locked_until: datetime | None
    delivery: Any = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as a peek shows it; the values of `properties` are encoded."""

    number: int
    message_id: str
    failures: int
    body: bytes
    properties: Mapping[str, bytes]
    time_to_live: timedelta | None
    enqueued: datetime | None
    is_scheduled: bool


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How a queue was made; `forwards_to` is empty where it keeps its messages and dead letters."""

    lock_duration: timedelta
    max_delivery_count: int
    time_to_live: timedelta
    dead_letters_expired: bool
    detects_duplicates: bool
    requires_sessions: bool
    forwards_to: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the administration says that a queue holds."""

    active: int
    scheduled: int
    dead_letters: int


class RefusedError(Exception):
    """The broker answered that it will not; the text has its words."""


class TooLargeError(RefusedError):
    """... because the message is larger than it takes."""


class NoRightError(Exception):
    """The administration endpoint does not answer us; the text says why and what to do."""


class Waiting(Protocol):
    """Time."""

    def now(self) -> datetime:
        """Return the time of this machine, in UTC."""

    def elapsed(self) -> timedelta:
        """Return the time since some moment; it never jumps."""

    def sleep(self, duration: timedelta) -> None:
        """Let time pass."""


class ProbedQueue(Protocol):
    """One queue; `dead` chooses its dead-letter queue.

    What is said to be elsewhere goes over another connection than the receiver's, to the
    `$management` node, by lock token alone. Methods raise RefusedError, LockLostError where a lock
    is gone, UnavailableError where the connection fails, ConfigurationError where a right or the
    queue is missing.
    """

    def largest(self) -> int:
        """Return how many bytes a message may have, as the broker tells senders."""

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Send all in one batch where they fit."""

    def send_alone(self, parcel: Parcel) -> None:
        """Send without looking at the size first; raise TooLargeError as the broker says."""

    def receive(self, most: int, wait: timedelta, *, dead: bool = False) -> list[Held]:
        """Lock up to `most` messages; empty where none came in time."""

    def peek(self, number: int, most: int, *, dead: bool = False) -> list[Seen]:
        """Return messages from this number on, elsewhere."""

    def abandon_here(self, held: Held) -> None:
        """Abandon on the link that received the message."""

    def release_here(self, held: Held, *, dead: bool = False) -> None:
        """Give the message back on the link that received it, as never delivered."""

    def abandon(self, lock_token: uuid.UUID, properties: Mapping[str, str | int]) -> None:
        """Abandon elsewhere, with properties."""

    def dead_letter(
        self,
        lock_token: uuid.UUID,
        reason: str,
        description: str,
        properties: Mapping[str, str | int],
    ) -> None:
        """Dead-letter elsewhere, with properties."""

    def renew(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Renew locks elsewhere, in one request."""

    def complete(self, lock_tokens: Sequence[uuid.UUID], *, dead: bool = False) -> None:
        """Complete elsewhere, in one request."""

    def give_back(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Abandon elsewhere, in one request."""

    def cancel(self, numbers: Sequence[int]) -> None:
        """Remove scheduled messages."""

    def close_receiver(self) -> None:
        """Close the receiver's connection; the next `receive` opens another."""

    def disconnect(self) -> None:
        """Close all connections; the next use opens others. Never raises."""

    def rules(self, queue: str | None = None) -> QueueRules | None:
        """Return how a queue of the namespace was made, None where there is no such queue.

        The probed one where none is named. Raise NoRightError.
        """

    def counts(self) -> Counts:
        """Return what the administration counts. Raise NoRightError."""
