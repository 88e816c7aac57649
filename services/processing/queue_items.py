"""What the three functions `Process…QueueItems` do with the message that the host hands them."""

import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from delivery.errors import DeliveryError, LockLostError, OutdatedError, TransitiveError
from delivery.retry import GiveUp, Squared, TryAgain
from models.message_properties import (
    CARRIED_ATTEMPTS,
    ERROR_DELIVERY_COUNT,
    ERROR_MESSAGE,
    ERROR_STACK_TRACE,
    ERROR_TIME,
    ERROR_TYPE,
    POSTPONEMENTS,
)
from models.queues import IGNORED_QUEUE, TRANSITIVE_QUEUES
from services.amqp_properties import TypedValue
from services.broker_limits import ERROR_MESSAGE_BYTES, ERROR_STACK_TRACE_BYTES, cut, cut_front
from services.metrics import Outcome
from services.processing.copies import postponed, set_aside
from services.processing.delivery import Delivery
from services.processing.execution import Post, ProcessQueueMessageService
from services.processing.lock_renewal import Lock
from services.processing.reports import DeliveryReports, Ending, Report
from services.processing.turns import Postponed, Turns


class AbortedError(DeliveryError):
    """All attempts are used up, and the last one ended without a word."""

    code = "aborted"


class Settlement(Protocol):
    """What the host cannot do for a Python function. Neither method raises."""

    def abandon(self, delivery: Delivery, properties: Mapping[str, str | int]) -> bool:
        """Give the message back to its queue with `properties` set on it."""
        ...

    def dead_letter(
        self, delivery: Delivery, reason: str, text: str, properties: Mapping[str, str | int]
    ) -> bool:
        """Move the message to the dead-letter queue."""
        ...


class OriginalProperties(Protocol):
    """What the host does not hand over."""

    def foreign(self, delivery: Delivery) -> Mapping[str, TypedValue]:
        """Return the properties that are not ours with their types; empty where there are none.

        It does not raise.
        """
        ...


class Locks(Protocol):
    """Keeps a message's lock while its handler runs."""

    def keep(self, delivery: Delivery) -> AbstractContextManager[Lock]:
        """Raise LockLostError where the lock is gone already."""
        ...


class QueueItemService:
    """Decides what becomes of a delivery. docs/delivery.md has the table."""

    def __init__(  # noqa: PLR0913 - one parameter a participant of the specification's diagram
        self,
        open_processing: Callable[[], ProcessQueueMessageService],
        *,
        locks: Locks,
        turns: Turns,
        post: Post,
        originals: OriginalProperties,
        settlement: Settlement,
        policies: Mapping[str, Squared],
        reports: DeliveryReports,
        now: Callable[[], datetime],
    ) -> None:
        # Opened for each message: where it cannot be, the message learns why, and waits.
        self._open_processing = open_processing
        self._locks = locks
        self._turns = turns
        self._post = post
        self._originals = originals
        self._settlement = settlement
        self._policies = policies
        self._reports = reports
        self._now = now

    def execute(self, delivery: Delivery) -> None:
        """Return when the host may complete the message; raise when it must not."""
        with self._reports.of(delivery) as report:
            try:
                with self._locks.keep(delivery) as lock:
                    ending = self._attempt(delivery, lock)
                    lock.check()
            except Exception as error:
                self._fail(delivery, error, report)
                raise
            report.ended(ending)

    def _attempt(self, delivery: Delivery, lock: Lock) -> Ending:
        """Return how the attempt ended.

        Every copy is sent before the message may be completed: a crash in between doubles it.
        """
        try:
            self._process(delivery, lock)
        except Postponed as postponement:
            typed = self._originals.foreign(delivery)
            copy = postponed(delivery, postponement.delay, self._now(), typed)
            self._post.post(delivery.queue, copy)
            return Ending(None, str(postponement))
        except OutdatedError as error:
            self._set_aside(IGNORED_QUEUE, delivery, error)
            return Ending(Outcome.IGNORED, str(error))
        except TransitiveError as error:
            self._set_aside(TRANSITIVE_QUEUES[delivery.queue], delivery, error)
            return Ending(Outcome.TRANSITIVE, str(error))
        return Ending(Outcome.SUCCESS)

    def _set_aside(self, queue: str, delivery: Delivery, error: DeliveryError) -> None:
        self._post.post(queue, set_aside(delivery, error, self._originals.foreign(delivery)))

    def _process(self, delivery: Delivery, lock: Lock) -> None:
        used_up = delivery.attempt > self._policies[delivery.queue].max_attempts
        if used_up and delivery.delivery_count > 1:
            msg = (
                f"attempt {delivery.attempt - 1} ended without a word: the worker died, or the "
                "function overran its time; look for that in the log before you resubmit it"
            )
            raise AbortedError(msg)
        # First of all: what ended the last attempt may lie in reading the message.
        self._turns.wait(delivery, lock)
        processing = self._open_processing()
        work = processing.read(delivery.body)
        lock.check()
        processing.apply(work, lambda: self._turns.at(work.place, delivery))

    def _fail(self, delivery: Delivery, error: Exception, report: Report) -> None:
        """Write the failure onto the message, which goes back or to the dead letters."""
        report.failed(error)
        if isinstance(error, LockLostError):
            return  # there is nothing left to settle
        properties = error_properties(error, delivery.attempt, self._now())
        match self._policies[delivery.queue].decide(error, delivery.attempt):
            case TryAgain():
                self._settlement.abandon(delivery, properties)
            case GiveUp(reason):
                text = str(properties[ERROR_MESSAGE])
                # Whoever sends it again, with whatever tool, starts from the beginning.
                properties |= {CARRIED_ATTEMPTS: 0, POSTPONEMENTS: 0}
                if self._settlement.dead_letter(delivery, reason, text, properties):
                    report.dead_lettered(reason)


def error_properties(error: Exception, attempt: int, now: datetime) -> dict[str, str | int]:
    """Describe `error` within the broker's limits.

    The stack trace holds frames only: the texts of causes may quote people's data.
    """
    stack = "".join(traceback.format_tb(error.__traceback__))
    return {
        ERROR_MESSAGE: cut(str(error) or type(error).__name__, ERROR_MESSAGE_BYTES),
        ERROR_TYPE: type(error).__name__,
        ERROR_STACK_TRACE: cut_front(stack, ERROR_STACK_TRACE_BYTES),
        ERROR_TIME: now.isoformat(),
        ERROR_DELIVERY_COUNT: attempt,
    }
