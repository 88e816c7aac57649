"""A queue as the probe knows one, in memory; it can be made to break each assumption."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from delivery.errors import LockLostError
from operator_console.probe.encoding import NULL_VALUE, integer
from operator_console.probe.ports import (
    Counts,
    Held,
    NoRightError,
    Parcel,
    QueueRules,
    RefusedError,
    Seen,
    TooLargeError,
)
from services.amqp_sections import string
from tests.builders import NOW

LARGEST = 256 * 1024
OF_ITS_PROPERTIES = 64 * 1024
IDLE = timedelta(minutes=10)
RULES = QueueRules(
    timedelta(seconds=10),
    10,
    timedelta(days=14),
    dead_letters_expired=True,
    detects_duplicates=False,
    requires_sessions=False,
)


class SteppedTime:
    """Time that passes only where somebody waits; `on_sleep` is called after each wait."""

    def __init__(self) -> None:
        self.passed = timedelta(0)
        self.on_sleep: Callable[[], None] = lambda: None
        self.longest = timedelta(0)

    def now(self) -> datetime:
        return NOW + self.passed

    def elapsed(self) -> timedelta:
        return self.passed

    def sleep(self, duration: timedelta) -> None:
        self.passed += duration
        self.longest = max(self.longest, duration)
        self.on_sleep()


@dataclass
class Kept:
    """A message in the queue or among the dead letters."""

    number: int
    parcel: Parcel
    properties: dict[str, bytes]
    enqueued: datetime
    dead: bool = False
    failures: int = 0
    token: uuid.UUID | None = None
    locked_until: datetime = NOW
    is_scheduled: bool = False


@dataclass
class MemoryQueue:
    """`quirks` are ids of assumptions that do not hold here; `namespace` are other queues."""

    time: SteppedTime
    quirks: frozenset[str] = frozenset()
    made: QueueRules = RULES
    namespace: Mapping[str, QueueRules] = field(default_factory=dict)
    has_right: bool = True
    kept: list[Kept] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    #: By what is done: how often it fails before it works again.
    failing: dict[str, int] = field(default_factory=dict)
    last: int = 0
    used: timedelta = timedelta(0)

    def put(self, message_id: str, *, dead: bool = False, due: datetime | None = None) -> Kept:
        """Put somebody else's message there."""
        self._take_in(Parcel(message_id, due=due))
        self.kept[-1].dead = dead
        return self.kept[-1]

    # What the port has, in its order.

    def largest(self) -> int:
        return 64 * 1024 if self._is_broken("largest-message-fits") else LARGEST

    def send(self, parcels: Sequence[Parcel]) -> None:
        self._use("send")
        most = 100 if self._is_broken("full-batch-arrives") else len(parcels)
        for parcel in parcels[:most]:
            self._take_in(parcel)

    def send_alone(self, parcel: Parcel) -> None:
        if len(parcel.body) > LARGEST and not self._is_broken("too-large-is-refused"):
            msg = "too large"
            raise TooLargeError(msg)
        self._take_in(parcel)

    def receive(self, most: int, wait: timedelta, *, dead: bool = False) -> list[Held]:
        self._use("receive")
        self._expire()
        free = [k for k in self._at(dead=dead) if k.token is None and not k.is_scheduled]
        if not free:
            self.time.passed += wait
        return [self._lock(kept) for kept in free[:most]]

    def peek(self, number: int, most: int, *, dead: bool = False) -> list[Seen]:
        self._use("peek")
        there = [kept for kept in self._at(dead=dead) if not self._is_hidden(kept)]
        found = [kept for kept in there if kept.number >= number]
        if not found and there and self._is_broken("peek-has-an-end"):
            found = there[-1:]
        is_gone = number > 1 and bool(found) and found[0].number > number
        if is_gone and self._is_broken("peek-goes-on-with-the-next"):
            found = []
        return [self._seen(kept) for kept in found[:most]]

    def abandon_here(self, held: Held) -> None:
        if self._is_broken("late-abandon-is-harmless"):
            return
        self._fail(self._locked(held.lock_token))

    def release_here(self, held: Held, *, dead: bool = False) -> None:
        kept = self._locked(held.lock_token)
        assert kept.dead is dead
        if self._is_broken("release-does-not-count"):
            kept.failures += 1
        kept.token = None

    def abandon(self, lock_token: uuid.UUID, properties: Mapping[str, str | int]) -> None:
        kept = self._locked_or_none(lock_token)
        if kept is None:
            return
        self._merge(kept, properties)
        if self._is_broken("abandon-keeps-types"):
            kept.properties["symbol"] = string("abc")
        if self._is_broken("abandon-merges"):
            kept.properties.pop("Kept", None)
        self._fail(kept)

    def dead_letter(
        self,
        lock_token: uuid.UUID,
        reason: str,
        description: str,
        properties: Mapping[str, str | int],
    ) -> None:
        if len(description) > 1_024 and self._is_broken("longest-texts-are-taken"):
            msg = "the description is too long"
            raise RefusedError(msg)
        kept = self._locked(lock_token)
        self._merge(kept, properties)
        told = "" if self._is_broken("dead-letter-carries-all") else description
        self._bury(kept, reason, told)

    def renew(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        self._refuse_many(lock_tokens, "renews-many")
        for token in lock_tokens:
            kept = self._locked_or_none(token)
            if kept is not None and not self._is_broken("renewal-lasts"):
                kept.locked_until = self.time.now() + self.made.lock_duration

    def complete(self, lock_tokens: Sequence[uuid.UUID], *, dead: bool = False) -> None:
        tokens = list(lock_tokens)
        if self._is_broken("completes-dead-letters" if dead else "completes-many"):
            tokens = tokens[:1]
        if self._is_broken("ended-lock-is-lost"):
            found = [kept for kept in self.kept if kept.token in tokens]
        else:
            known = [token for token in tokens if self._find(token) is not None]
            if not self._is_broken("many-are-all-or-none"):
                found = [self._locked(token) for token in tokens]
            else:
                found = [self._locked(token) for token in known]
        for kept in found:
            assert kept.dead is dead
            self.kept.remove(kept)
        if len(found) < len(tokens):
            raise LockLostError

    def give_back(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        self._refuse_many(lock_tokens, "gives-back-many")
        for token in lock_tokens:
            self._fail(self._locked(token))

    def cancel(self, numbers: Sequence[int]) -> None:
        found = [kept for kept in self.kept if kept.number in numbers and kept.is_scheduled]
        if len(found) != len(numbers):
            msg = "no such message"
            raise RefusedError(msg)
        self.kept = [kept for kept in self.kept if kept not in found]

    def close_receiver(self) -> None:
        if self._is_broken("lock-outlives-its-link"):
            for kept in self.kept:
                kept.token = None

    def disconnect(self) -> None:
        self.failing.clear()

    def rules(self, queue: str | None = None) -> QueueRules | None:
        self._check_right()
        return self.made if queue is None else self.namespace.get(queue)

    def counts(self) -> Counts:
        self._check_right()
        living = [kept for kept in self.kept if not kept.dead]
        if self._is_broken("counts-are-right"):
            living = [kept for kept in living if kept.token is None]
        scheduled = sum(kept.is_scheduled for kept in living)
        return Counts(len(living) - scheduled, scheduled, sum(kept.dead for kept in self.kept))

    # How it works inside.

    def _is_broken(self, assumption: str) -> bool:
        return assumption in self.quirks

    def _use(self, what: str) -> None:
        self._advance()
        if self.time.passed - self.used >= IDLE:
            times = 2 if self._is_broken("links-come-back") else 1
            self.failing = dict.fromkeys(("send", "peek", "receive"), times)
        self.used = self.time.passed
        if self.failing.get(what):
            self.failing[what] -= 1
            msg = "Management Operation error occurred"
            raise RefusedError(msg)

    def _check_right(self) -> None:
        if not self.has_right:
            msg = "the right to look at queues is missing"
            raise NoRightError(msg)

    def _take_in(self, parcel: Parcel) -> None:
        if parcel.message_id in self.accepted and self._is_broken("same-id-arrives-twice"):
            return
        self.accepted.add(parcel.message_id)
        properties = dict(parcel.properties)
        if "char" in properties and self._is_broken("awkward-types-pass"):
            properties["char"] = string("A")
        if NULL_VALUE in properties.values() and self._is_broken("null-is-harmless"):
            properties = dict.fromkeys(properties, string(""))
        self.last += 1
        kept = Kept(self.last, parcel, properties, self.time.now())
        kept.is_scheduled = parcel.due is not None
        self.kept.append(kept)

    def _at(self, *, dead: bool) -> list[Kept]:
        self._advance()
        return sorted((k for k in self.kept if k.dead is dead), key=lambda kept: kept.number)

    def _advance(self) -> None:
        now = self.time.now()
        for kept in list(self.kept):
            due = kept.parcel.due
            if kept.is_scheduled and due and due <= now:
                kept.is_scheduled = self._is_broken("scheduled-comes-when-due")
            if kept.token is not None and kept.locked_until <= now:
                if self._is_broken("expiry-counts"):
                    kept.token = None
                elif not self._is_broken("ended-lock-is-lost"):
                    self._fail(kept)

    def _expire(self) -> None:
        for kept in list(self.kept):
            life = kept.parcel.time_to_live
            if life is None or kept.dead or kept.enqueued + life > self.time.now():
                continue
            if self._is_broken("expired-is-dead-lettered"):
                self.kept.remove(kept)
            else:
                self._bury(kept, "TTLExpiredException", "")

    def _lock(self, kept: Kept) -> Held:
        kept.token = uuid.uuid4()
        kept.locked_until = self.time.now() + self.made.lock_duration
        number = kept.number
        if kept.dead and self._is_broken("dead-letters-ascend"):
            number += 1_000
        return Held(
            number,
            kept.token,
            kept.parcel.message_id,
            kept.failures,
            kept.enqueued,
            kept.locked_until,
        )

    def _is_hidden(self, kept: Kept) -> bool:
        return kept.token is not None and self._is_broken("peek-shows-locked")

    def _seen(self, kept: Kept) -> Seen:
        life = kept.parcel.time_to_live or self.made.time_to_live
        late = timedelta(minutes=1) if self._is_broken("clocks-agree") else timedelta(0)
        return Seen(
            kept.number,
            kept.parcel.message_id,
            kept.failures,
            kept.parcel.body,
            kept.properties,
            None if self._is_broken("life-is-shown") else life,
            kept.enqueued - late,
            kept.is_scheduled and not self._is_broken("peek-tells-scheduled"),
        )

    def _find(self, token: uuid.UUID) -> Kept | None:
        self._advance()
        return next((kept for kept in self.kept if kept.token == token), None)

    def _locked(self, token: uuid.UUID) -> Kept:
        if (kept := self._find(token)) is None:
            raise LockLostError
        return kept

    def _locked_or_none(self, token: uuid.UUID) -> Kept | None:
        return self._find(token) if self._is_broken("unknown-lock-is-lost") else self._locked(token)

    def _refuse_many(self, tokens: Sequence[uuid.UUID], assumption: str) -> None:
        if len(tokens) > 1 and self._is_broken(assumption):
            msg = "one token only"
            raise RefusedError(msg)

    def _merge(self, kept: Kept, properties: Mapping[str, str | int]) -> None:
        encoded = {
            name: string(value) if isinstance(value, str) else integer(value)
            for name, value in properties.items()
        }
        merged = kept.properties | encoded
        size = sum(len(name) + len(value) for name, value in merged.items())
        if size > OF_ITS_PROPERTIES and not self._is_broken("too-long-is-refused"):
            msg = "the properties are too long"
            raise RefusedError(msg)
        kept.properties = merged

    def _fail(self, kept: Kept) -> None:
        kept.token = None
        kept.failures += not self._is_broken("abandon-counts")
        is_last = kept.failures >= self.made.max_delivery_count
        if is_last and not kept.dead and not self._is_broken("attempts-end"):
            self._bury(kept, "MaxDeliveryCountExceeded", "")

    def _bury(self, kept: Kept, reason: str, description: str) -> None:
        kept.dead, kept.token = True, None
        kept.properties |= {"DeadLetterReason": string(reason)}
        if description:
            kept.properties |= {"DeadLetterErrorDescription": string(description)}


def a_memory_queue(*quirks: str, **changes: object) -> MemoryQueue:
    """Make a queue that breaks these assumptions, with rules changed."""
    made = replace(RULES, **changes)  # type: ignore[arg-type] # the rules' own fields
    return MemoryQueue(SteppedTime(), frozenset(quirks), made)
