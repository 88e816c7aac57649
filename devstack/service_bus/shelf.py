"""Messages that receivers take, lock and give back: what a queue and its dead letters share."""

import heapq
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable
from uuid import uuid4

from devstack.service_bus.messages import (
    Content,
    Counts,
    Journal,
    LockLostError,
    Message,
    MessageNotFoundError,
    QueueSettings,
    State,
)

#: Stale entries that are tolerated in a list or heap before it is rebuilt.
SLACK = 1024


def random_token() -> bytes:
    """Return a lock token, in RFC 4122 byte order."""
    return uuid4().bytes


class Shelf:
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
        # One lock duration for all, so the first lock is the next to lapse. A plain dictionary
        # passes over all that left its front, each time anew: 100,000 locks would take seconds.
        self._locks: OrderedDict[bytes, Message] = OrderedDict()

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
        found = [self._messages.get(sequence) for sequence in dict.fromkeys(sequences)]
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
        message.locked_until = now + self.settings.lock_duration
        self._locks.move_to_end(token)
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
        message.token, message.locked_until = None, 0

    def _fail(self, message: Message, now: int) -> None:
        message.delivery_count += 1
        self._journal.put(self.settings.name, message)
        self._give_back(message, now)

    def _give_back(self, message: Message, now: int) -> None:  # noqa: ARG002 - a queue needs it
        if message.state is State.ACTIVE:
            heapq.heappush(self._available, message.sequence)

    def _add(self, message: Message) -> None:
        self._messages[message.sequence] = message
        if not self._order or message.sequence > self._order[-1]:
            self._order.append(message.sequence)
        else:
            insort(self._order, message.sequence)
        if message.state is State.ACTIVE:
            heapq.heappush(self._available, message.sequence)

    def _detach(self, message: Message) -> None:
        del self._messages[message.sequence]
        # Otherwise each peek from the front would pass over all that were here before.
        if len(self._order) > 2 * len(self._messages) + SLACK:
            self._order = sorted(self._messages)

    def _remove(self, message: Message) -> None:
        self._detach(message)
        self._journal.remove(self.settings.name, message.sequence)


class DeadLetterQueue(Shelf):
    """A queue's dead letters: they keep their numbers, never expire and move nowhere."""

    def receive(self, message: Message) -> None:
        """Take in a message that its queue gave up, which is journaled here."""
        message.state = State.ACTIVE
        self._add(message)
        self._journal.put(self.settings.name, message)
