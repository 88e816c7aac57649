"""Whatever order things happen in, a queue keeps its promises and its journal tells all."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from devstack.service_bus.messages import (
    DeadLetter,
    LockLostError,
    Message,
)
from devstack.service_bus.queue import Queue
from tests.unit.service_bus.builders import NOW, RecordingJournal, a_content, a_queue

LOCK = 1000
MOST = 3


@dataclass
class Reference:
    """What should be in the queue, said as simply as can be."""

    name: str
    enqueued: int
    ttl: int | None
    due: int | None
    failures: int = 0
    deferred: bool = False
    dead: bool = False
    locked_until: int | None = None
    token: bytes = field(default=b"")

    def gone_by(self, now: int) -> bool:
        started = self.due if self.due is not None else self.enqueued
        return self.ttl is not None and now >= started + self.ttl


class QueueMachine(RuleBasedStateMachine):
    """A queue with expiry into its dead-letter queue, beside a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.journal = RecordingJournal()
        self.queue = self.a_new_queue()
        self.expected: dict[str, Reference] = {}
        self.sent = 0

    def a_new_queue(self) -> Queue:
        return a_queue(
            self.journal, lock_duration=LOCK, max_delivery_count=MOST, dead_letter_expired=True
        )

    # What time does to the reference.

    def fail(self, entry: Reference) -> None:
        entry.failures += 1
        entry.locked_until = None
        if entry.failures >= MOST and not entry.dead:
            entry.dead, entry.deferred = True, False

    def lapse(self) -> None:
        for entry in self.expected.values():
            if entry.locked_until is not None and entry.locked_until <= self.now:
                self.fail(entry)

    def expire(self) -> None:
        for entry in self.expected.values():
            waiting = entry.locked_until is None and not entry.deferred and not entry.dead
            if waiting and not self.is_scheduled(entry) and entry.gone_by(self.now):
                entry.dead = True

    def is_scheduled(self, entry: Reference) -> bool:
        return entry.due is not None and entry.due > self.now

    def available(self) -> set[str]:
        return {
            entry.name
            for entry in self.expected.values()
            if entry.locked_until is None
            and not entry.deferred
            and not entry.dead
            and not self.is_scheduled(entry)
        }

    # What happens.

    @rule(
        ttl=st.none() | st.integers(1, 4000),
        delay=st.none() | st.integers(-10, 3000),
    )
    def send(self, ttl: int | None, delay: int | None) -> None:
        self.sent += 1
        name = f"m{self.sent}"
        due = None if delay is None else self.now + delay
        self.queue.send(a_content(name), self.now, message_id=name, ttl=ttl, due=due)
        self.expected[name] = Reference(
            name, self.now, ttl, due if delay is not None and delay > 0 else None
        )

    @rule(step=st.integers(0, 1500))
    def wait(self, step: int) -> None:
        self.now += step
        self.lapse()

    @rule()
    def take(self) -> None:
        self.lapse()
        self.expire()
        message = self.queue.take(self.now)
        available = self.available()
        if message is None:
            assert not available
            return
        name = str(message.message_id)
        assert name in available
        entry = self.expected[name]
        assert message.delivery_count == entry.failures
        entry.locked_until = message.locked_until
        assert message.token is not None
        entry.token = message.token

    @rule(data=st.data(), how=st.sampled_from(["complete", "abandon", "release", "defer", "bury"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        tokens = sorted(entry.token for entry in self.expected.values() if entry.token)
        if not tokens:
            return
        token = data.draw(st.sampled_from(tokens))
        (entry,) = (entry for entry in self.expected.values() if entry.token == token)
        self.lapse()
        if entry.locked_until is None:
            self.expect_lock_lost(token)
        else:
            self.apply(how, entry)

    def expect_lock_lost(self, token: bytes) -> None:
        try:
            self.queue.complete(token, self.now)
        except LockLostError:
            return
        raise AssertionError

    def apply(self, how: str, entry: Reference) -> None:
        if how == "bury":
            why = DeadLetter("r", "d", "orders")
            self.queue.dead_letter(entry.token, self.now, why)
            entry.dead, entry.deferred = True, False
        else:
            getattr(self.queue, how)(entry.token, self.now)
        entry.locked_until, entry.token = None, b""
        if how == "complete":
            del self.expected[entry.name]
        elif how == "abandon":
            self.fail(entry)
        elif how == "defer":
            entry.deferred = True

    @rule()
    def take_deferred(self) -> None:
        self.lapse()
        waiting = [e for e in self.expected.values() if e.deferred and e.locked_until is None]
        numbers = self.numbers()
        found = self.queue.take_deferred([numbers[e.name] for e in waiting], self.now)
        for message, entry in zip(found, waiting, strict=True):
            assert message.token is not None
            entry.token, entry.locked_until = message.token, message.locked_until

    @rule()
    def cancel(self) -> None:
        self.lapse()
        numbers = self.numbers()
        for entry in list(self.expected.values()):
            if self.is_scheduled(entry):
                self.queue.cancel([numbers[entry.name]], self.now)
                del self.expected[entry.name]
                return

    @rule()
    def restart(self) -> None:
        """Only the journal survives; locks do not, and that is no failed delivery."""
        self.lapse()
        self.queue.advance(self.now)
        kept = sorted(self.journal.kept.values(), key=lambda message: message.sequence)
        self.queue = self.a_new_queue()
        self.queue._next_sequence = self.journal.next_sequence  # noqa: SLF001 - as the store does
        for message in kept:
            message.token, message.locked_until = None, 0
            self.queue.restore(message)
        for entry in self.expected.values():
            entry.locked_until, entry.token = None, b""

    # What always holds.

    def numbers(self) -> dict[str, int]:
        everything = self.queue.peek(1, 10**6, self.now)
        self.expire()
        return {str(m.message_id): m.sequence for m in everything}

    @invariant()
    def nothing_is_lost_nor_doubled(self) -> None:
        everything = [*self.queue._messages.values(), *self.queue.dead_letters._messages.values()]  # noqa: SLF001 - looking must not change it
        assert sorted(str(m.message_id) for m in everything) == sorted(self.expected)

    @invariant()
    def the_journal_holds_what_the_queue_holds(self) -> None:
        everything: list[Message] = [
            *self.queue._messages.values(),  # noqa: SLF001 - looking must not change it
            *self.queue.dead_letters._messages.values(),  # noqa: SLF001 - as above
        ]
        assert self.journal.kept == {m.sequence: m for m in everything}
        assert all(m.sequence < self.journal.next_sequence for m in everything)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=150, stateful_step_count=40)
