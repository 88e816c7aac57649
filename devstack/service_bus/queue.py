"""The queue model: what a Service Bus queue does with its messages.

Pure: the time comes in as milliseconds since 1970, lock tokens from a function, and every change
that must outlive the process goes to a `Journal`. Locks are not journaled: a restart ends them.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable

from devstack.service_bus.messages import (
    Content,
    DeadLetter,
    Journal,
    Message,
    MessageNotFoundError,
    QueueSettings,
    State,
)
from devstack.service_bus.shelf import SLACK, DeadLetterQueue, Shelf, random_token


class Queue(Shelf):
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
        # Ordered for the sake of its front, as the locks are.
        self._history: OrderedDict[str, int] = OrderedDict()

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
        found = [self._messages.get(sequence) for sequence in dict.fromkeys(sequences)]
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
