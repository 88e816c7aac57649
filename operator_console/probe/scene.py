"""Our messages in a queue: marked, told from others', and taken away again."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from delivery.errors import LockLostError
from operator_console.probe.ports import (
    Held,
    Parcel,
    ProbedQueue,
    QueueRules,
    RefusedError,
    Seen,
    Waiting,
)
from operator_console.probe.verdicts import UntestedError, expect

_MARK = "gleichlauf-probe"
_PAGE = 100

#: A message that is there comes in this time; who waits for none to come waits for the second one.
_PATIENCE, _QUIET = timedelta(seconds=10), timedelta(seconds=1)

#: Locks are waited for only where they are this short.
_LONGEST_LOCK = timedelta(minutes=1)

#: After a lock's end the broker may need a moment to see it.
_SLACK = timedelta(seconds=15)

_MOMENT = timedelta(milliseconds=200)


class ForeignMessageError(Exception):
    """Somebody else uses the queue. The text says what of theirs came by."""


@dataclass
class Scene:
    """One run of the probe on one queue.

    `rules` are None where the administration does not tell them; `why_no_rules` says why. `lock` is
    how long a lock lasts, as measured.
    """

    queue: ProbedQueue
    waiting: Waiting
    idle: timedelta
    rules: QueueRules | None = None
    why_no_rules: str = ""
    wanted: Mapping[str, QueueRules] = field(default_factory=dict)
    lock: timedelta = timedelta(minutes=5)
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _due: dict[str, datetime] = field(default_factory=dict)
    _held: list[tuple[Held, bool]] = field(default_factory=list)

    def parcel(self, **parts: Any) -> Parcel:  # noqa: ANN401 - the fields of a parcel
        """Make a message of ours; its id says so."""
        parcel = Parcel(f"{_MARK}-{self.run}-{next(self._numbers)}", **parts)
        if parcel.due is not None:
            self._due[parcel.message_id] = parcel.due
        return parcel

    def send(self, number: int = 1, **parts: Any) -> list[Parcel]:  # noqa: ANN401 - as above
        """Send new messages in one batch."""
        parcels = [self.parcel(**parts) for _ in range(number)]
        self.queue.send(parcels)
        return parcels

    def is_ours(self, message: Held | Seen) -> bool:
        """Tell our messages of this run from all others."""
        return message.message_id.startswith(f"{_MARK}-{self.run}-")

    def take(self, number: int = 1, *, dead: bool = False) -> list[Held]:
        """Lock so many of our messages, in the order of their numbers.

        Raise RefutedError where they do not come, ForeignMessageError where others do.
        """
        taken: list[Held] = []
        deadline = self.waiting.elapsed() + _PATIENCE
        while len(taken) < number and self.waiting.elapsed() < deadline:
            taken += self._receive(number - len(taken), _PATIENCE, dead=dead)
        place = "as dead letters " if dead else ""
        seen = f"{len(taken)} of {number} messages were handed out {place}within 10 s"
        expect(len(taken) == number, seen)
        return sorted(taken, key=lambda held: held.number)

    def one(self, *, dead: bool = False) -> Held:
        """Lock one of our messages."""
        [held] = self.take(dead=dead)
        return held

    def comes(self) -> bool:
        """Tell whether a message is handed out now."""
        return bool(self._receive(1, _QUIET, dead=False))

    def shown(self, *, dead: bool = False) -> list[Seen]:
        """Peek at all of our messages."""
        return [message for message in peek_all(self.queue, dead=dead) if self.is_ours(message)]

    def the_one_shown(self, *, dead: bool = False) -> Seen:
        """Peek at the only message of ours that should be there."""
        shown = self.shown(dead=dead)
        place = "among the dead letters" if dead else "in the queue"
        expect(len(shown) == 1, f"a peek shows {len(shown)} messages {place} in place of one")
        return shown[0]

    def give_up_waiting_for_locks(self) -> None:
        """Raise UntestedError where a lock lasts too long to be waited for."""
        if self.lock > _LONGEST_LOCK:
            msg = (
                f"a lock lasts {self.lock.total_seconds():g} s here, and the probe waits for at "
                "most 60 s; give the queue a lock duration of 10 s"
            )
            raise UntestedError(msg)

    def let_lock_expire(self) -> None:
        """Wait until a lock that was taken now is gone."""
        self.give_up_waiting_for_locks()
        self.waiting.sleep(self.lock + min(self.lock / 5, timedelta(seconds=2)))

    def left(self) -> str:
        """Take our messages away, and return where some are left; empty where none are."""
        self._complete_held()
        left = [self._swept(dead=dead) for dead in (False, True)]
        self._held.clear()
        return "; ".join(filter(None, left))

    def _receive(self, most: int, wait: timedelta, *, dead: bool) -> list[Held]:
        received = self.queue.receive(most, wait, dead=dead)
        self._held += [(held, dead) for held in received if self.is_ours(held)]
        self._return_foreign([held for held in received if not self.is_ours(held)], dead=dead)
        return received

    def _return_foreign(self, foreign: list[Held], *, dead: bool) -> None:
        for held in foreign:
            self.queue.release_here(held, dead=dead)
        if foreign:
            msg = (
                f"message {foreign[0].number} is not of this run and was given back: somebody "
                "else uses the queue; take one that nobody uses"
            )
            raise ForeignMessageError(msg)

    def _complete_held(self) -> None:
        """Complete what we know the token of; most of it is gone already."""
        for dead in (False, True):
            self._complete([held for held, at in self._held if at is dead], dead=dead)

    def _swept(self, *, dead: bool) -> str:
        deadline = self.waiting.elapsed() + self.lock + _SLACK
        while True:
            there = list(peek_all(self.queue, dead=dead))
            ours = [message for message in there if self.is_ours(message)]
            if not ours:
                return ""
            if self.waiting.elapsed() >= deadline:
                place = "dead-letter queue" if dead else "queue"
                return f"{place}: {', '.join(str(message.number) for message in ours)}"
            self._cancel([message.number for message in ours if self._is_waiting(message)])
            numbers = {message.number for message in ours if not self._is_waiting(message)}
            # Others' messages may stand before ours, and are handed out first.
            if not numbers or not self._complete_some(numbers, len(there), dead=dead):
                self.waiting.sleep(_MOMENT)

    def _complete_some(self, numbers: set[int], most: int, *, dead: bool) -> bool:
        """Complete what is handed out now of these; tell whether that was any."""
        received = self.queue.receive(most, _QUIET, dead=dead)
        ours = [
            held
            for held in received
            # The number alone counts only where the SDK could not read the id.
            if self.is_ours(held) or (not held.message_id and held.number in numbers)
        ]
        self._complete(ours, dead=dead)
        for held in received:
            if held not in ours:
                self.queue.release_here(held, dead=dead)
        return bool(ours)

    def _is_waiting(self, message: Seen) -> bool:
        """Tell whether it is scheduled: by what is shown, or by what we know."""
        due = self._due.get(message.message_id)
        return message.is_scheduled or (due is not None and due > self.waiting.now())

    def _cancel(self, numbers: list[int]) -> None:
        # One that has just become due is handed out in the next round.
        with suppress(RefusedError):
            if numbers:
                self.queue.cancel(numbers)

    def _complete(self, messages: list[Held], *, dead: bool) -> None:
        """Complete by one request; where that is refused, one by one, and some are gone."""
        tokens = [held.lock_token for held in messages]
        for request in ([tokens] if tokens else []) + [[token] for token in tokens]:
            with suppress(LockLostError, RefusedError):
                self.queue.complete(request, dead=dead)
                if request is tokens:
                    return


def peek_all(queue: ProbedQueue, *, dead: bool) -> Iterator[Seen]:
    """Yield every message, whosever it is."""
    following = 1
    while page := queue.peek(following, _PAGE, dead=dead):
        if page[-1].number < following:
            return  # a broker that begins anew at the end would be asked for ever
        yield from page
        following = page[-1].number + 1
