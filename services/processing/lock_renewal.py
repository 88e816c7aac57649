"""Keeps the locks of messages while they are processed, whatever their handlers do."""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta

from azure.servicebus.exceptions import MessageLockLostError

from delivery.errors import LockLostError, UnavailableError
from services.event_log import Action, log_event, told
from services.metrics import MetricsService, Renewal
from services.processing.delivery import Delivery

_LOGGER = logging.getLogger(__name__)

#: The specification's interval; a short lock is renewed at a third of its duration.
INTERVAL = timedelta(seconds=30)

#: Renews one lock; raises MessageLockLostError where it is gone.
Renew = Callable[[str, uuid.UUID], None]


class Lock:
    """The lock of one delivery, while somebody keeps it."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self._lost = threading.Event()

    def check(self) -> None:
        """Raise LockLostError where the lock is known to be gone."""
        if self._lost.is_set():
            msg = (
                f"{self.delivery.queue}: the lock of the message was lost; it is delivered again, "
                "and this delivery leaves it alone"
            )
            raise LockLostError(msg)

    def wait(self, delay: timedelta) -> None:
        """Let `delay` pass; raise LockLostError as soon as the lock is gone."""
        self._lost.wait(delay.total_seconds())
        self.check()

    def lose(self) -> None:
        """Take note that the lock is gone."""
        self._lost.set()


class LockRenewalService:
    """Renews from a thread of its own, so that no handler can keep it from doing so (SB1).

    `clock` counts seconds and never jumps: a wall clock that is set back would delay renewals.
    """

    def __init__(
        self,
        renew: Renew,
        lock_durations: Mapping[str, timedelta],
        *,
        metrics: MetricsService,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._renew = renew
        self._durations = lock_durations
        self._metrics = metrics
        self._now = now
        self._clock = clock
        self._kept: dict[Lock, float] = {}
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def keep(self, delivery: Delivery) -> Iterator[Lock]:
        """Keep the lock for as long as the block runs.

        The lock may have run out before we were called: the message waited in the worker. So it is
        renewed first, unless it cannot be old. Raise LockLostError where it is gone, and
        UnavailableError where the broker does not answer.
        """
        lock = Lock(delivery)
        if not self._is_fresh(delivery):
            self._renew_first(lock)
        with self._changing:
            self._kept[lock] = self._clock()
            if self._thread is None:
                self._thread = self._start()
        try:
            yield lock
        finally:
            with self._changing:
                del self._kept[lock]

    def renew_due(self) -> None:
        """Renew every lock whose turn it is."""
        now = self._clock()
        with self._changing:
            due = [lock for lock, since in self._kept.items() if now - since >= self._wait(lock)]
        for lock in due:
            self._renew_again(lock, now)

    def close(self) -> None:
        """Renew no more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="lock-renewal-clock", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self._closed.wait(self._tick.total_seconds()):
            try:
                self.renew_due()
            except Exception:
                # Nothing may end this thread: every lock would run out.
                _LOGGER.exception("lock renewal failed; it goes on")

    @property
    def _tick(self) -> timedelta:
        return min(map(self._interval, self._durations)) / 4

    def _interval(self, queue: str) -> timedelta:
        return min(INTERVAL, self._durations[queue] / 3)

    def _wait(self, lock: Lock) -> float:
        """Return after how many seconds a lock's turn has come: a tick early rather than late."""
        return (self._interval(lock.delivery.queue) - self._tick).total_seconds()

    def _is_fresh(self, delivery: Delivery) -> bool:
        """Tell whether half of the lock must be left; a renewal for each would cost throughput."""
        if delivery.delivery_count > 1 or delivery.enqueued is None:
            return False
        return self._now() - delivery.enqueued < self._durations[delivery.queue] / 2

    def _renew_first(self, lock: Lock) -> None:
        delivery = lock.delivery
        try:
            self._renew(delivery.queue, delivery.lock_token)
        except MessageLockLostError:
            self._lose(lock)
            lock.check()
        except Exception as error:
            self._metrics.lock_renewed(delivery.queue, Renewal.FAILED)
            msg = f"{delivery.queue}: the lock of the message could not be renewed: {error}"
            raise UnavailableError(msg) from error
        self._metrics.lock_renewed(delivery.queue, Renewal.RENEWED)

    def _renew_again(self, lock: Lock, now: float) -> None:
        delivery = lock.delivery
        try:
            self._renew(delivery.queue, delivery.lock_token)
        except MessageLockLostError:
            with self._changing:
                # A handler that is through has let go of its lock, and somebody has settled it.
                if lock not in self._kept:
                    return
                self._kept[lock] = math.inf
            self._lose(lock)
        except Exception as error:  # noqa: BLE001 - the next tick tries again
            self._metrics.lock_renewed(delivery.queue, Renewal.FAILED)
            subject = delivery.subject
            log_event(_LOGGER, logging.WARNING, Action.LOCK_NOT_RENEWED, subject, told(error))
        else:
            self._metrics.lock_renewed(delivery.queue, Renewal.RENEWED)
            with self._changing:
                if lock in self._kept:
                    self._kept[lock] = now

    def _lose(self, lock: Lock) -> None:
        """Say so at once: its handler may take long to notice."""
        lock.lose()
        self._metrics.lock_renewed(lock.delivery.queue, Renewal.LOST)
        log_event(_LOGGER, logging.WARNING, Action.LOCK_LOST, lock.delivery.subject)
