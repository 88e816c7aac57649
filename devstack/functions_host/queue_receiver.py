"""One receiver of one queue: a thread that receives, hands over, renews and settles.

The SDK's clients are not thread-safe, so everything that touches the link happens in this thread.
The worker's answers come in through a queue. The thread must never wait long for one thing while
another is due: it asks the broker in short waits while invocations run, and in long ones when idle.
"""

import logging
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError

from devstack.functions_host.admission import Admission
from devstack.functions_host.invocations import (
    Call,
    Function,
    Outcome,
    Raised,
    Returned,
    log_outcome,
    new_call,
)
from devstack.functions_host.queue_link import QueueLink
from devstack.functions_host.trigger_metadata import to_body, to_inputs
from devstack.functions_host.worker_process import WorkerProcess

_LOG = logging.getLogger("functions_host.queues")

_BUSY_WAIT_SECONDS = 0.01
_IDLE_WAIT_SECONDS = 1.0
#: What arrives this soon after we asked was waiting in the queue, and more is there.
_BACKLOG_HINT_SECONDS = 0.02
#: How long to wait for further outcomes before asking for few messages: one request costs a
#: round trip, however many it brings.
_GATHER_SECONDS = 0.004
_FULL_WAIT_SECONDS = 0.1
_RENEWAL_CHECK_SECONDS = 0.5
_SETTLE_ATTEMPTS = 2
_TOO_LATE = "failed; the message comes back when its lock runs out"
_FIRST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """What the receivers of one function have in common."""

    function: Function
    argument: str
    auto_complete: bool
    max_lock_renewal: timedelta


@dataclass(slots=True, eq=False)
class _Held:
    """A message whose lock we hold."""

    message: ServiceBusReceivedMessage
    received: datetime
    call: Call | None = None
    lock_is_lost: bool = False

    def needs_renewal(self, now: datetime, limit: timedelta) -> bool:
        """Tell whether half of the lock's time has gone, and renewing is still our task."""
        until = self.message.locked_until_utc
        if self.lock_is_lost or until is None or now - self.received >= limit:
            return False
        return until - now < self._half_lock()

    def _half_lock(self) -> timedelta:
        annotations = self.message.raw_amqp_message.annotations or {}
        first = annotations.get(b"x-opt-locked-until")
        if first is None:
            return timedelta(seconds=15)
        return (datetime.fromtimestamp(first / 1000, UTC) - self.received) / 2


@dataclass(slots=True)
class _Settlement:
    held: _Held
    operation: Literal["complete", "abandon"]
    attempts: int = 0


class QueueReceiver:
    """Holds up to `slots` messages of a queue at once."""

    def __init__(
        self,
        plan: QueuePlan,
        slots: int,
        worker: WorkerProcess,
        admission: Admission,
        link: QueueLink,
    ) -> None:
        self._plan = plan
        self._slots = slots
        self._worker = worker
        self._admission = admission
        self._stopping = threading.Event()
        self._link = link
        self._failures = 0
        #: Received, but not yet allowed to the worker.
        self._waiting: deque[_Held] = deque()
        self._running: set[_Held] = set()
        self._unsettled: deque[_Settlement] = deque()
        self._outcomes: queue.SimpleQueue[tuple[_Held, Outcome]] = queue.SimpleQueue()
        #: How many messages to ask for: grows while the queue is full, falls to one when it is not,
        #: because the SDK waits 0.2 s for the rest of a request that is met in part.
        self._appetite = 1
        self._next_renewal_check = 0.0
        admission.register(self)

    def stop(self) -> None:
        """Receive no more. The thread ends when everything in flight is settled."""
        self._stopping.set()

    def run(self) -> None:
        """Receive until stopped. No error ends this loop: it reconnects for ever."""
        while self._running or self._unsettled or not self._stopping.is_set():
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - the SDK raises many kinds; each means: reconnect
                self._reconnect_later(error)
        self._leave()

    def _step(self) -> None:
        self._settle()
        while self._take_outcome(0):
            pass
        self._renew_locks()
        self._hand_over()
        room = self._room()
        if room == 0:
            self._take_outcome(_FULL_WAIT_SECONDS)
        elif self._running and room < self._slots / 2 and self._take_outcome(_GATHER_SECONDS):
            return
        else:
            self._receive(room)

    def _room(self) -> int:
        """Return how many messages to ask for at most."""
        if self._stopping.is_set() or self._waiting or not self._worker.ready.is_set():
            return 0
        if self._admission.is_on_probation():
            return 0 if self._running else 1
        return self._slots - len(self._running)

    def _receive(self, room: int) -> None:
        wanted = min(room, self._appetite)
        busy = self._running or self._admission.is_on_probation()
        wait = _BUSY_WAIT_SECONDS if busy else _IDLE_WAIT_SECONDS
        began = time.perf_counter()
        messages = self._link.open().receive_messages(wanted, max_wait_time=wait)
        self._failures = 0
        if messages:
            self._admission.found_some()
            now = datetime.now(UTC)
            self._waiting.extend(_Held(message, now) for message in messages)
            self._hand_over()
        elif not self._running:
            self._admission.found_nothing(self)
        if len(messages) < wanted:
            self._appetite = 1
        elif time.perf_counter() - began < _BACKLOG_HINT_SECONDS:
            self._appetite = min(self._appetite * 2, self._slots)

    def _hand_over(self) -> None:
        """Give the worker what waits and is allowed to it."""
        if not self._waiting or not self._worker.ready.is_set():
            return
        calls = []
        for _ in range(self._admission.admit(len(self._waiting))):
            held = self._waiting.popleft()
            self._running.add(held)
            if (call := self._to_call(held)) is not None:
                calls.append(call)
        if calls:
            self._worker.invoke(calls)

    def _to_call(self, held: _Held) -> Call | None:
        def done(outcome: Outcome) -> None:
            self._outcomes.put((held, outcome))

        try:
            inputs = to_inputs(held.message, self._plan.argument)  # type: ignore[arg-type] # the SDK's class has what the Protocol asks, as properties
            held.call = new_call(self._plan.function, inputs, to_body(held.message), done)  # type: ignore[arg-type] # as above
        except (OverflowError, TypeError, ValueError) as error:
            name, number = self._plan.function.name, held.message.sequence_number
            _LOG.error("%s cannot be given message %s, abandoned: %s", name, number, error)
            done(Raised("UnsupportedMessage", str(error), ""))
        return held.call

    def _take_outcome(self, wait: float) -> bool:
        """Settle one message whose invocation ended, within `wait` seconds; False if none did."""
        try:
            held, outcome = self._outcomes.get(block=wait > 0, timeout=wait)
        except queue.Empty:
            return False
        self._running.discard(held)
        if isinstance(outcome, Returned | Raised):
            self._admission.ended()
        else:
            self._admission.lost()
        if held.call is not None:
            log_outcome(held.call, outcome, success_level=logging.DEBUG)
        # Complete after a return, abandon after anything else, as Azure's host does.
        if not isinstance(outcome, Returned):
            self._unsettled.append(_Settlement(held, "abandon"))
        elif self._plan.auto_complete:
            self._unsettled.append(_Settlement(held, "complete"))
        self._settle()
        return True

    def _settle(self) -> None:
        """Settle what is due. What fails with the connection is tried once more on the next one."""
        while self._unsettled:
            settlement, link = self._unsettled[0], self._link.open()
            settlement.attempts += 1
            try:
                _carry_out(settlement, link)
            except (MessageLockLostError, MessageAlreadySettled):
                self._complain(settlement, "met a lost lock and changed nothing")
            except Exception:
                if settlement.attempts < _SETTLE_ATTEMPTS:
                    raise
                self._complain(settlement, _TOO_LATE)
            self._unsettled.popleft()

    def _complain(self, settlement: _Settlement, what: str) -> None:
        call = settlement.held.call
        name, operation = self._plan.function.name, settlement.operation
        _LOG.warning("%s %s: the host's %s %s", name, call.id if call else "-", operation, what)

    def _renew_locks(self) -> None:
        if time.monotonic() < self._next_renewal_check:
            return
        self._next_renewal_check = time.monotonic() + _RENEWAL_CHECK_SECONDS
        now = datetime.now(UTC)
        for held in (*self._running, *self._waiting):
            if held.needs_renewal(now, self._plan.max_lock_renewal):
                self._renew(held)

    def _renew(self, held: _Held) -> None:
        try:
            self._link.open().renew_message_lock(held.message)
        except MessageLockLostError:
            held.lock_is_lost = True
            name, call = self._plan.function.name, held.call
            _LOG.warning("%s %s: its message's lock is lost", name, call.id if call else "-")

    def _reconnect_later(self, error: Exception) -> None:
        self._link.report_lost(error)
        self._link.close()
        if self._stopping.is_set():
            for settlement in self._unsettled:
                self._complain(settlement, _TOO_LATE)
            self._unsettled.clear()
        backoff = _FIRST_BACKOFF_SECONDS * 2**self._failures
        self._failures = min(self._failures + 1, 10)
        self._stopping.wait(min(backoff, _LONGEST_BACKOFF_SECONDS))

    def _leave(self) -> None:
        """Give back what the worker never saw, and go."""
        self._unsettled.extend(_Settlement(held, "abandon") for held in self._waiting)
        try:
            self._settle()
        except Exception as error:  # noqa: BLE001 - then their locks run out, which does the same
            self._link.report_lost(error)
        self._link.close()


def _carry_out(settlement: _Settlement, link: ServiceBusReceiver) -> None:
    held = settlement.held
    if held.lock_is_lost:
        raise MessageLockLostError(message="known from a renewal")
    until = held.message.locked_until_utc
    if until is not None and until <= datetime.now(UTC):
        # The SDK refuses by its own clock; the app may have renewed the lock by itself.
        link.renew_message_lock(held.message)
    if settlement.operation == "complete":
        link.complete_message(held.message)
    else:
        link.abandon_message(held.message)
