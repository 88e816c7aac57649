"""The queue model: what a Service Bus queue does with its messages.

Pure: the time comes in as milliseconds since 1970, lock tokens from a function, and every change
that must outlive the process goes to a `Journal`. Locks are not journaled: a restart ends them.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol
from uuid import uuid4

#: Stale heap entries that are tolerated before a heap is rebuilt.
SLACK = 1024


class LockLostError(Exception):
    """No message is locked under this token: it lapsed, was settled, or never existed."""


class MessageNotFoundError(Exception):
    """No message with this sequence number is in the state that the operation needs."""


class NotADeadLetterError(Exception):
    """A message of a dead-letter queue cannot be dead-lettered again."""


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


def random_token() -> bytes:
    """Return a lock token, in RFC 4122 byte order."""
    return uuid4().bytes


class _Shelf:
    """Messages that receivers can take, lock and give back: a queue or a dead-letter queue."""

    def __init__(
        self, settings: QueueSettings, journal: Journal, new_token: Callable[[], bytes]
    ) -> None:
        self.settings = settings
        self._journal = journal
        self._new_token = new_token
        self._messages: dict[int, Message] = {}
        self._order: list[int] = []
        self._available: list[int] = []
        # One lock duration for all, so the first lock in the dictionary is the next to lapse.
        self._locks: dict[bytes, Message] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def take(self, now: int) -> Message | None:
        """Lock and return the available message with the lowest number."""
        message = self._next(now)
        if message is not None:
            self._lock(message, now)
        return message

    def take_and_delete(self, now: int) -> Message | None:
        """Remove and return the available message with the lowest number."""
        message = self._next(now)
        if message is not None:
            self._remove(message)
        return message

    def take_deferred(
        self, sequences: Iterable[int], now: int, *, delete: bool = False
    ) -> list[Message]:
        """Lock (or remove) and return the deferred messages with these numbers: all or none."""
        self.advance(now)
        found = [self._messages.get(sequence) for sequence in sequences]
        messages = [m for m in found if m and m.state is State.DEFERRED and m.token is None]
        if len(messages) != len(found):
            raise MessageNotFoundError
        for message in messages:
            if delete:
                self._remove(message)
            else:
                self._lock(message, now)
        return messages

    def locked(self, token: bytes, now: int) -> Message:
        """Return the message locked under `token`."""
        self.advance(now)
        message = self._locks.get(token)
        if message is None:
            raise LockLostError
        return message

    def renew(self, token: bytes, now: int) -> int:
        """Prolong the lock and return the time when it now lapses."""
        message = self.locked(token, now)
        del self._locks[token]
        message.locked_until = now + self.settings.lock_duration
        self._locks[token] = message
        return message.locked_until

    def complete(self, token: bytes, now: int) -> None:
        """Remove the message for good."""
        self._remove(self._unlock(token, now))

    def abandon(self, token: bytes, now: int, content: Content | None = None) -> None:
        """Give the message back as a failed delivery, with new content where given."""
        message = self._unlock(token, now)
        if content is not None:
            message.content = content
        self._fail(message, now)

    def release(self, token: bytes, now: int) -> None:
        """Give the message back as if it had never been delivered."""
        self._give_back(self._unlock(token, now), now)

    def defer(self, token: bytes, now: int, content: Content | None = None) -> None:
        """Set the message aside: only its sequence number finds it again."""
        message = self._unlock(token, now)
        if content is not None:
            message.content = content
        message.state = State.DEFERRED
        self._journal.put(self.settings.name, message)

    def peek(self, start: int, count: int, now: int) -> list[Message]:
        """Return up to `count` messages from number `start` on, whatever their state."""
        self._look(now)
        found: list[Message] = []
        for index in range(bisect_left(self._order, start), len(self._order)):
            message = self._messages.get(self._order[index])
            if message is not None:
                found.append(message)
            if len(found) >= count:
                break
        return found

    def counts(self) -> Counts:
        """Return the run-time counts. Locked and deferred messages count as active."""
        messages = self._messages.values()
        scheduled = sum(m.state is State.SCHEDULED for m in messages)
        size = sum(sum(map(len, m.content)) for m in messages)
        return Counts(len(messages) - scheduled, scheduled, size)

    def next_due(self) -> int | None:
        """Return when `advance` has something to do next, if ever."""
        for message in self._locks.values():
            return message.locked_until
        return None

    def advance(self, now: int) -> None:
        """Let time pass: locks lapse, which counts as a failed delivery."""
        while self._locks:
            message = next(iter(self._locks.values()))
            if message.locked_until > now:
                return
            self._release_lock(message)
            self._fail(message, now)

    def restore(self, message: Message) -> None:
        """Take in a message that the journal kept."""
        self._add(message)

    def _look(self, now: int) -> None:
        self.advance(now)

    def _next(self, now: int) -> Message | None:
        self._look(now)
        while self._available:
            message = self._messages.get(heapq.heappop(self._available))
            if message is not None:
                return message
        return None

    def _lock(self, message: Message, now: int) -> None:
        message.token = self._new_token()
        message.locked_until = now + self.settings.lock_duration
        self._locks[message.token] = message

    def _unlock(self, token: bytes, now: int) -> Message:
        message = self.locked(token, now)
        self._release_lock(message)
        return message

    def _release_lock(self, message: Message) -> None:
        if message.token is not None:
            del self._locks[message.token]
        message.token = None

    def _fail(self, message: Message, now: int) -> None:
        message.delivery_count += 1
        self._journal.put(self.settings.name, message)
        self._give_back(message, now)

    def _give_back(self, message: Message, now: int) -> None:  # noqa: ARG002 - a queue needs it
        if message.state is State.ACTIVE:
            heapq.heappush(self._available, message.sequence)

    def _add(self, message: Message) -> None:
        self._messages[message.sequence] = message
        if len(self._order) > 2 * len(self._messages) + SLACK:
            self._order = sorted(self._messages)
        elif not self._order or message.sequence > self._order[-1]:
            self._order.append(message.sequence)
        else:
            insort(self._order, message.sequence)
        if message.state is State.ACTIVE:
            heapq.heappush(self._available, message.sequence)

    def _detach(self, message: Message) -> None:
        del self._messages[message.sequence]

    def _remove(self, message: Message) -> None:
        self._detach(message)
        self._journal.remove(self.settings.name, message.sequence)


class DeadLetterQueue(_Shelf):
    """A queue's dead letters: they keep their numbers, never expire and are never moved again."""

    def receive(self, message: Message) -> None:
        """Take in a message that its queue gave up, which is journaled here."""
        message.state = State.ACTIVE
        self._add(message)
        self._journal.put(self.settings.name, message)

    def dead_letter(
        self, token: bytes, now: int, why: DeadLetter, content: Content | None = None
    ) -> None:
        """Refuse: there is no dead-letter queue behind this one."""
        raise NotADeadLetterError


class Queue(_Shelf):
    """A queue: numbers, schedules and expires messages, and has a dead-letter queue."""

    def __init__(
        self,
        settings: QueueSettings,
        journal: Journal,
        *,
        next_sequence: int = 1,
        new_token: Callable[[], bytes] = random_token,
    ) -> None:
        super().__init__(settings, journal, new_token)
        self.dead_letters = DeadLetterQueue(settings, journal, new_token)
        self._next_sequence = next_sequence
        self._scheduled: list[tuple[int, int]] = []
        self._expiring: list[tuple[int, int]] = []
        self._history: dict[str, int] = {}

    def send(
        self,
        content: Content,
        now: int,
        *,
        message_id: str | None = None,
        ttl: int | None = None,
        due: int | None = None,
    ) -> int | None:
        """Take a message in and return its number, or None for a duplicate, which is dropped."""
        if self._is_duplicate(message_id, now):
            return None
        default = self.settings.default_ttl
        if default is not None and (ttl is None or ttl > default):
            ttl = default
        message = Message(self._number(), content, message_id, now, ttl)
        if due is not None and due > now:
            message.state = State.SCHEDULED
            message.due = due
        self._add(message)
        self._journal.put(self.settings.name, message)
        return message.sequence

    def cancel(self, sequences: Iterable[int], now: int) -> None:
        """Remove scheduled messages that are not due yet: all or none."""
        self.advance(now)
        found = [self._messages.get(sequence) for sequence in sequences]
        messages = [m for m in found if m is not None and m.state is State.SCHEDULED]
        if len(messages) != len(found):
            raise MessageNotFoundError
        for message in messages:
            self._remove(message)

    def dead_letter(
        self, token: bytes, now: int, why: DeadLetter, content: Content | None = None
    ) -> None:
        """Move the message to the dead-letter queue, with new content where given."""
        message = self._unlock(token, now)
        if content is not None:
            message.content = content
        self._bury(message, why)

    def advance(self, now: int) -> None:
        """Let time pass: locks lapse, and scheduled messages become available when due."""
        super().advance(now)
        while self._scheduled and self._scheduled[0][0] <= now:
            due, sequence = heapq.heappop(self._scheduled)
            message = self._messages.get(sequence)
            if message is not None:
                self._activate(message, due)

    def next_due(self) -> int | None:
        """Return when `advance` has something to do next, if ever."""
        lapse = super().next_due()
        if not self._scheduled:
            return lapse
        due = self._scheduled[0][0]
        return due if lapse is None else min(lapse, due)

    def restore(self, message: Message) -> None:
        """Take in a message that the journal kept, here or among the dead letters."""
        if message.dead_letter is None:
            self._add(message)
        else:
            self.dead_letters.restore(message)

    def restore_history(self, message_id: str, at: int) -> None:
        """Take in a message id that the journal kept for duplicate detection."""
        self._history[message_id] = at

    def _number(self) -> int:
        sequence = self._next_sequence
        self._next_sequence = sequence + 1
        self._journal.advance_sequence(self.settings.name, self._next_sequence)
        return sequence

    def _is_duplicate(self, message_id: str | None, now: int) -> bool:
        window = self.settings.duplicate_window
        if window is None or message_id is None:
            return False
        while self._history:
            oldest, at = next(iter(self._history.items()))
            if at + window > now:
                break
            del self._history[oldest]
            self._journal.forget(self.settings.name, oldest)
        if message_id in self._history:
            return True
        self._history[message_id] = now
        self._journal.remember(self.settings.name, message_id, now)
        return False

    def _activate(self, message: Message, due: int) -> None:
        # As the service documents it: becoming active counts as being enqueued then, at the end
        # of the queue, under a new number.
        self._remove(message)
        message.sequence = self._number()
        message.state = State.ACTIVE
        message.enqueued = due
        self._add(message)
        self._journal.put(self.settings.name, message)

    def _add(self, message: Message) -> None:
        super()._add(message)
        if message.state is State.SCHEDULED:
            heapq.heappush(self._scheduled, (message.due, message.sequence))
        elif message.state is State.ACTIVE:
            self._watch(message)

    def _watch(self, message: Message) -> None:
        expires = message.expires
        if expires is None:
            return
        if len(self._expiring) > 2 * len(self._messages) + SLACK:
            kept = (m for m in self._messages.values() if m.state is State.ACTIVE)
            self._expiring = [(m.expires, m.sequence) for m in kept if m.expires is not None]
            heapq.heapify(self._expiring)
        else:
            heapq.heappush(self._expiring, (expires, message.sequence))

    def _look(self, now: int) -> None:
        super()._look(now)
        while self._expiring and self._expiring[0][0] <= now:
            _, sequence = heapq.heappop(self._expiring)
            message = self._messages.get(sequence)
            # A locked message may still be completed; given back, it is watched again.
            if message is not None and message.token is None and message.state is State.ACTIVE:
                self._expire(message)

    def _expire(self, message: Message) -> None:
        if self.settings.dead_letter_expired:
            description = "The message expired and was dead lettered."
            self._bury(message, DeadLetter("TTLExpiredException", description, self.settings.name))
        else:
            self._remove(message)

    def _fail(self, message: Message, now: int) -> None:
        limit = self.settings.max_delivery_count
        if message.delivery_count + 1 < limit:
            super()._fail(message, now)
            return
        message.delivery_count += 1
        description = f"Message could not be consumed after {limit} delivery attempts."
        self._bury(message, DeadLetter("MaxDeliveryCountExceeded", description, self.settings.name))

    def _give_back(self, message: Message, now: int) -> None:
        super()._give_back(message, now)
        expires = message.expires
        if message.state is State.ACTIVE and expires is not None and expires <= now:
            self._watch(message)

    def _bury(self, message: Message, why: DeadLetter) -> None:
        self._detach(message)
        message.dead_letter = why
        self.dead_letters.receive(message)
