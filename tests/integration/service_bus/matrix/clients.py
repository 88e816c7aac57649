"""What every client of the matrix can do, and in which words their answers are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple, Protocol, runtime_checkable


class Meaning(Enum):
    """What an error tells, whatever an SDK calls it."""

    LOCK_LOST = auto()
    NOT_FOUND = auto()
    TOO_LARGE = auto()
    UNAUTHORIZED = auto()
    #: The link or the connection is gone.
    CUT_OFF = auto()
    OTHER = auto()


class ToldError(Exception):
    """An SDK raised an error that means this."""

    def __init__(self, meaning: Meaning, text: str) -> None:
        super().__init__(f"{meaning.name}: {text}")
        self.meaning = meaning


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    body: str = "a"
    message_id: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    reply_to: str | None = None
    to: str | None = None
    partition_key: str | None = None
    seconds_to_live: float | None = None
    properties: Mapping[str, str | int | bool | float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Seen(Outgoing):
    """A message that was received or peeked. `handle` is what its client settles it by."""

    handle: int
    sequence: int
    delivery_count: int
    state: str
    enqueued: datetime
    locked_until: datetime | None
    reason: str | None
    description: str | None
    source: str | None


class Place(NamedTuple):
    """Where to receive."""

    queue: str
    dead: bool = False
    deletes: bool = False


class Counts(NamedTuple):
    active: int
    scheduled: int
    dead: int
    total: int
    size: int


class Client(Protocol):
    """One SDK's client, its links opened when they are first needed. All raise `ToldError`."""

    def send(self, queue: str, message: Outgoing) -> None: ...

    def send_all(self, queue: str, messages: Sequence[Outgoing]) -> None: ...

    def fill(self, queue: str, message: Outgoing, most: int) -> int:
        """Send a batch of as many copies as fit, at most so many, and return their number."""

    def schedule(self, queue: str, messages: Sequence[Outgoing], due: datetime) -> list[int]: ...

    def cancel(self, queue: str, number: int) -> None: ...

    def peek(self, place: Place, *, start: int = 1, count: int = 10) -> list[Seen]: ...

    def receive(self, place: Place, *, seconds: float = 5) -> list[Seen]:
        """Return one message, or none where none came within so many seconds."""

    def receive_deferred(self, place: Place, number: int) -> Seen: ...

    def complete(self, message: Seen) -> None: ...

    def abandon(self, message: Seen, properties: Mapping[str, str | int] | None = None) -> None: ...

    def defer(self, message: Seen) -> None: ...

    def dead_letter(
        self,
        message: Seen,
        *,
        reason: str | None = None,
        description: str | None = None,
        properties: Mapping[str, str | int] | None = None,
    ) -> None: ...

    def renew(self, message: Seen) -> datetime:
        """Return until when the message is locked now."""

    def close(self) -> None: ...


class Sdk(Protocol):
    """An SDK that opens clients."""

    name: str

    def client(self, connection_string: str) -> Client: ...

    def end(self) -> None: ...


@runtime_checkable
class Administrator(Protocol):
    """An SDK whose administration client reads queues."""

    def counts(self, connection_string: str, queue: str) -> Counts: ...

    def queues(self, connection_string: str) -> list[str]: ...

    def namespace(self, connection_string: str) -> str: ...
