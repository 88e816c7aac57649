"""The second pass: does what was planned, in an order in which nothing is lost at any moment.

Messages are locked, then sent or archived, and only then completed. Whoever ends this program in
between leaves a message in its queue, and at worst a second one like it where it went. What a newer
change stands for is put away last, when that one has gone back.
"""

import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import batched, groupby
from typing import NamedTuple, Protocol

from dead_letter_mover.letters import Letter
from dead_letter_mover.plan import ACTED_ON, Fate, Plan
from dead_letter_mover.resubmission import new_id, resubmitted
from delivery.errors import RejectedError, UnreadableError


class Locked(NamedTuple):
    """A message that was handed out."""

    sequence_number: int
    lock_token: uuid.UUID


class Broker(Protocol):
    """One queue or dead-letter queue to take from, and all queues to send to."""

    def receive(self, most: int) -> list[Locked]:
        """Lock messages; empty where none came in time."""

    def encoded(self, sequence_numbers: Sequence[int]) -> dict[int, bytes]:
        """Return messages, locked or not, as they are encoded; without those that are gone."""

    def send(self, queue: str, messages: Sequence[bytes]) -> None:
        """Return once the broker has all of them.

        Raise RejectedError, with nothing sent, where one is too large.
        """

    def complete(self, messages: Sequence[Locked]) -> list[Locked]:
        """Remove messages; return those whose lock ran out, and which stay."""

    def renew(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Let locks run anew; those that are lost already are no error."""

    def give_back(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Unlock messages; never raises, as locks end by themselves."""


class Done(StrEnum):
    """What was done about a message."""

    RESUBMITTED = "resubmitted"
    SKIPPED = "skipped"
    SUPERSEDED = "superseded"
    #: It could not be sent, and is where it was.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of one message; `why` says it where it was left."""

    done: Done
    letter: Letter
    target: str | None = None
    new_message_id: str | None = None
    why: str | None = None


class Archive(Protocol):
    """Keeps messages that leave the bus for good."""

    def write(self, removed: Sequence[Moved]) -> None:
        """Return once all of them are safe."""


_REMOVED = {Fate.SKIP: Done.SKIPPED, Fate.SUPERSEDE: Done.SUPERSEDED}

#: Queues lock for five minutes as shipped; half a minute is the shortest that is in use.
_RENEWAL_SECONDS = 15

_GONE = "the broker does not show it any more"


class Unreached(NamedTuple):
    """What the broker did not hand out: how much is gone meanwhile, and how much still there."""

    gone: int
    there: int


class Mover:
    """Works through one queue. `place` names it in the ids of what is sent."""

    def __init__(
        self,
        place: str,
        plan: Plan,
        broker: Broker,
        archive: Archive,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._plan = plan
        self._broker = broker
        self._archive = archive
        self._clock = clock
        self._renewed = clock()
        #: The locks that we hold.
        self._kept: dict[int, uuid.UUID] = {}
        #: What could not be sent, what waits for something newer to go back, and what is safe
        #: elsewhere and could not be completed.
        self._stuck: set[int] = set()
        self._superseded: set[int] = set()
        self._unremoved: set[int] = set()

    def run(
        self, limit: int, at_once: int, must_stop: Callable[[], bool]
    ) -> Generator[list[Moved]]:
        """Yield what was done, batch by batch; ends where the plan, the limit or the queue does.

        What stays is locked while the rest is passed, because a broker hands out the same messages
        again otherwise; it is given back in the end.
        """
        try:
            while not must_stop():
                most = min(limit, self._open())
                locked = self._broker.receive(at_once) if most > 0 or self._unremoved else []
                is_old = all(message.sequence_number in self._kept for message in locked)
                moved = self._act_on(self._due(locked, most))
                limit -= _count(moved)
                yield moved
                if is_old:
                    break  # nothing came, or locks have run out and the queue begins anew
                self._keep_locks()
            yield from self._put_superseded_away(limit, at_once, must_stop)
        finally:
            self._broker.give_back(list(self._kept.values()))

    @property
    def unremoved(self) -> int:
        """How many messages went, and are in their queue as well: their locks had run out."""
        return len(self._unremoved)

    def unreached(self) -> Unreached:
        """Look for what the plan wanted away and the broker did not hand out."""
        numbers = [number for number in self._plan.open() if number not in self._kept]
        there = sum(len(self._broker.encoded(some)) for some in batched(numbers, 250, strict=False))
        return Unreached(len(numbers) - there, there)

    def _open(self) -> int:
        return self._plan.left() - len(self._stuck) - len(self._superseded)

    def _put_superseded_away(
        self, limit: int, at_once: int, must_stop: Callable[[], bool]
    ) -> Generator[list[Moved]]:
        ours = [number for number in self._plan.replaced() if number in self._superseded]
        for numbers in batched(ours[:limit], at_once, strict=False):
            if must_stop():
                return
            self._superseded.difference_update(numbers)
            yield self._act_on({number: Locked(number, self._kept[number]) for number in numbers})
            self._keep_locks()

    def _keep_locks(self) -> None:
        if self._clock() - self._renewed >= _RENEWAL_SECONDS:
            self._broker.renew(list(self._kept.values()))
            self._renewed = self._clock()

    def _due(self, locked: Iterable[Locked], most: int) -> dict[int, Locked]:
        """Pick what something is to be done about now."""
        due: dict[int, Locked] = {}
        again: list[Locked] = []
        for message in locked:
            number = message.sequence_number
            planned = self._plan.of(number)
            if planned.done:
                again.append(message)
                continue
            if planned.fate is Fate.SUPERSEDE:
                self._superseded.add(number)
            elif planned.fate in ACTED_ON and number not in self._kept and len(due) < most:
                due[number] = message
            self._kept[number] = message.lock_token
        self._complete(again)
        return due

    def _act_on(self, due: Mapping[int, Locked]) -> list[Moved]:
        if not due:
            return []
        found = self._broker.encoded(sorted(due))
        batch = [self._planned(number, found.get(number)) for number in sorted(due)]
        results: list[Moved] = []
        for target, items in groupby(sorted(batch, key=_target), key=_target):
            # What leaves the bus goes first, for want of a target: its name is empty.
            planned = list(items)
            done = self._send(target, planned) if target else self._put_away(planned)
            self._settle(due, done)
            results += done
        return sorted(results, key=lambda moved: moved.letter.sequence_number)

    def _planned(self, number: int, encoded: bytes | None) -> Moved:
        if encoded is None:
            return Moved(Done.LEFT, Letter(number, b""), why=_GONE)
        letter, planned = Letter.of(encoded), self._plan.of(number)
        if planned.target is None:
            return Moved(_REMOVED[planned.fate], letter)
        return Moved(Done.RESUBMITTED, letter, planned.target, new_id(self._place, letter))

    def _put_away(self, batch: list[Moved]) -> list[Moved]:
        if removed := [moved for moved in batch if moved.done is not Done.LEFT]:
            self._archive.write(removed)
        return batch

    def _send(self, target: str, batch: list[Moved]) -> list[Moved]:
        """Send all of them, or all but those that cannot be sent."""
        try:
            self._broker.send(
                target,
                [resubmitted(item.letter.encoded, item.new_message_id or "") for item in batch],
            )
        except (RejectedError, UnreadableError) as error:
            if len(batch) == 1:
                return [Moved(Done.LEFT, batch[0].letter, why=str(error))]
            half = len(batch) // 2
            return self._send(target, batch[:half]) + self._send(target, batch[half:])
        return batch

    def _settle(self, due: Mapping[int, Locked], batch: Iterable[Moved]) -> None:
        """Complete what is safe elsewhere; keep the rest."""
        safe: list[Locked] = []
        for moved in batch:
            number = moved.letter.sequence_number
            if moved.done is Done.LEFT:
                self._stuck.add(number)
            else:
                self._plan.note_done(number)
                safe.append(due[number])
        self._complete(safe)

    def _complete(self, messages: Sequence[Locked]) -> None:
        """Remove messages; one whose lock has run out is removed when it comes again."""
        late = {message.sequence_number for message in self._broker.complete(messages)}
        done = {message.sequence_number for message in messages}
        self._unremoved = (self._unremoved - done) | late
        for number in done:
            self._kept.pop(number, None)


def _target(moved: Moved) -> str:
    return moved.target or ""


def _count(moved: Iterable[Moved]) -> int:
    return sum(item.done is not Done.LEFT for item in moved)
