"""A thread that owns what is not thread-safe, such as the SDK's clients, and works for all others.

The SDK waits for ever on a broker that takes a connection and never answers, and a Python thread
cannot be stopped. So whoever waits goes on after a while, and a new thread takes the place of the
one that hangs.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from typing import Any

from delivery.errors import UnavailableError
from services.time_limit import fulfil


class OwnedThread[Owned]:
    """Runs calls one after the other, each with what this thread owns."""

    def __init__(self, name: str, make: Callable[[], Owned], *, limit: timedelta) -> None:
        self._name = name
        self._make = make
        self._limit = limit
        self._changing = threading.Lock()
        self._seat: _Seat[Owned] | None = None

    def run[Answer](self, call: Callable[[Owned], Answer]) -> Answer:
        """Return what `call` returns, or raise what it raises.

        Raise UnavailableError where that takes longer than the limit; the call may still be done.
        """
        with self._changing:
            if self._seat is None:
                self._seat = _Seat(self._name, self._make())
            seat = self._seat
        future = seat.submit(call)
        try:
            return future.result(self._limit.total_seconds())
        except TimeoutError:
            if future.done():  # it was the call's own, or it came at the last moment
                return future.result()
        self._give_up(seat)
        seconds = self._limit.total_seconds()
        msg = f"{self._name}: the broker did not answer within {seconds:.0f} s"
        raise UnavailableError(msg)

    def close(self, finish: Callable[[Owned], object]) -> None:
        """End the thread, after `finish` where it has ever run."""
        with self._changing:
            seat, self._seat = self._seat, None
        if seat is not None:
            seat.submit(finish).result(self._limit.total_seconds())
            seat.leave()

    def _give_up(self, seat: "_Seat[Owned]") -> None:
        seat.leave()
        with self._changing:
            if self._seat is seat:
                self._seat = None


class _Seat[Owned]:
    """One thread and what it owns."""

    def __init__(self, name: str, owned: Owned) -> None:
        self._owned = owned
        self._calls: SimpleQueue[tuple[Callable[[Owned], Any], Future[Any]] | None] = SimpleQueue()
        self._left = threading.Event()
        # A daemon, because one that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def submit[Answer](self, call: Callable[[Owned], Answer]) -> Future[Answer]:
        future: Future[Answer] = Future()
        self._calls.put((call, future))
        return future

    def leave(self) -> None:
        """Do no more calls; whoever waits for one gives up by himself."""
        self._left.set()
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None and not self._left.is_set():
            call, future = item
            fulfil(future, partial(call, self._owned))
