"""The second pass: does what was planned, in an order in which nothing is lost at any moment.

Messages are locked, then sent or archived, and only then completed. Whoever ends this program in
between leaves a message in its queue, and at worst a second one like it where it went.
"""

import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Protocol

from dead_letter_mover.letters import Letter
from dead_letter_mover.plan import ACTED_ON, Fate, Plan
from dead_letter_mover.resubmission import new_id, resubmitted
from delivery.errors import RejectedError, UnreadableError


@dataclass(frozen=True, slots=True)
class Locked:
    """A message that was handed out; `handle` is the broker's own."""

    sequence_number: int
    lock_token: uuid.UUID
    handle: object


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

    def complete(self, messages: Sequence[Locked]) -> None:
        """Remove messages; one whose lock ran out stays, which is no error."""

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
        #: The locks that we hold.
        self._kept: dict[int, uuid.UUID] = {}
        self._clock = clock
        self._renewed = clock()
        self._stuck = 0

    def run(
        self, limit: int, at_once: int, must_stop: Callable[[], bool]
    ) -> Generator[list[Moved]]:
        """Yield what was done, batch by batch; ends where the plan, the limit or the queue does.

        What stays is locked while the rest is passed, because a broker hands out the same messages
        again otherwise; it is given back in the end.
        """
        try:
            while not must_stop():
                most = min(limit, self._plan.left() - self._stuck)
                locked = self._broker.receive(at_once) if most > 0 else []
                if all(message.sequence_number in self._kept for message in locked):
                    return  # nothing came, or locks have run out and the queue begins anew
                moved = self._act_on(self._due(locked, most))
                limit -= len(moved)
                yield moved
                self._keep_locks()
        finally:
            self._broker.give_back(list(self._kept.values()))

    def _keep_locks(self) -> None:
        if self._clock() - self._renewed >= _RENEWAL_SECONDS:
            self._broker.renew(list(self._kept.values()))
            self._renewed = self._clock()

    def _due(self, locked: Iterable[Locked], most: int) -> dict[int, Locked]:
        """Pick what something is to be done about."""
        due: dict[int, Locked] = {}
        for message in locked:
            number = message.sequence_number
            planned = self._plan.of(number)
            if planned.done:  # its lock had run out before it was completed
                self._broker.complete([message])
                continue
            if planned.fate in ACTED_ON and number not in self._kept and len(due) < most:
                due[number] = message
            self._kept[number] = message.lock_token
        return due

    def _act_on(self, due: Mapping[int, Locked]) -> list[Moved]:
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
                return [replace(batch[0], done=Done.LEFT, why=str(error))]
            half = len(batch) // 2
            return self._send(target, batch[:half]) + self._send(target, batch[half:])
        return batch

    def _settle(self, due: Mapping[int, Locked], batch: Iterable[Moved]) -> None:
        """Complete what is safe elsewhere; keep the rest."""
        safe: list[Locked] = []
        for moved in batch:
            if moved.done is Done.LEFT:
                self._stuck += 1
                continue
            message = due[moved.letter.sequence_number]
            self._plan.note_done(message.sequence_number)
            safe.append(message)
        self._broker.complete(safe)
        for message in safe:
            del self._kept[message.sequence_number]


def _target(moved: Moved) -> str:
    return moved.target or ""
