"""When a delivery gets its turn: now, after a wait on its thread, or later as a scheduled copy.

Threads are what all jobs of an instance share, so at most half of them may wait, or be with a
target that does not answer. Whoever comes beyond that is put off.
"""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from threading import BoundedSemaphore

from delivery.errors import UnavailableError
from delivery.retry import Squared
from services.processing.delivery import Delivery
from services.processing.lock_renewal import Lock

#: A message for a target that is down comes back at least this often, in units: every 15 minutes.
_LONGEST_POSTPONEMENT_UNITS = 900

#: The longest wait inside an invocation, in units of the backoff: of 4, 9, 16, 25, 36 … the first
#: four.
_LONGEST_WAIT_UNITS = 30


class Postponed(Exception):  # noqa: N818 - no error: it says that the attempt did not take place
    """The delivery's turn has not come; its message goes back for `delay`."""

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"put off for {delay}")
        self.delay = delay


class Turns:
    """Gives out the turns of one instance; safe for several threads."""

    def __init__(self, policies: Mapping[str, Squared], *, threads: int) -> None:
        self._policies = policies
        self._threads = BoundedSemaphore(max(1, threads // 2))
        self._silent: set[str] = set()

    def wait(self, delivery: Delivery, lock: Lock) -> None:
        """Let the backoff of a redelivery pass; the first delivery of a copy has waited already.

        Raise Postponed where that would hold a thread for too long, or too many of them. What may
        have ended a worker never waits inside: all that waited beside it would end with it again.
        """
        if delivery.delivery_count == 1:
            return
        policy = self._policies[delivery.queue]
        delay = policy.wait_before(delivery.attempt)
        if delivery.is_suspect:
            raise Postponed(delay * (1 + _spread(delivery.message_id)))
        if delay > policy.unit * _LONGEST_WAIT_UNITS:
            raise Postponed(delay)
        with self._thread_for(delay):
            lock.wait(delay)

    @contextmanager
    def at(self, place: str, delivery: Delivery) -> Iterator[None]:
        """Bracket a call of `place` in a target; raise Postponed where too many wait for it."""
        if place not in self._silent:
            with self._listening(place):
                yield
            return
        # Later and later: a long queue for a target that is down must not go round and round.
        policy = self._policies[delivery.queue]
        delay = policy.wait_before(delivery.attempt + delivery.postponements + 1)
        longest = policy.unit * _LONGEST_POSTPONEMENT_UNITS
        with self._thread_for(min(delay, longest)), self._listening(place):
            yield

    @contextmanager
    def _thread_for(self, delay: timedelta) -> Iterator[None]:
        if not self._threads.acquire(blocking=False):
            raise Postponed(delay)
        try:
            yield
        finally:
            self._threads.release()

    @contextmanager
    def _listening(self, place: str) -> Iterator[None]:
        try:
            yield
        except UnavailableError:
            self._silent.add(place)
            raise
        except Exception:
            # A refusal is an answer.
            self._silent.discard(place)
            raise
        self._silent.discard(place)


def _spread(message_id: str) -> float:
    """Return a part of 1: the same for one message, different ones for several."""
    return zlib.crc32(message_id.encode(errors="replace")) / 2**32
