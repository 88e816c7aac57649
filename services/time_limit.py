"""Calls that may hang, with an end.

The Service Bus SDK waits for ever on a broker that takes a connection and never answers, and a
Python thread cannot be stopped: so such a call has a thread of its own, and who waits goes on.
"""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from threading import Thread


def start[T](name: str, call: Callable[[], T]) -> Future[T]:
    """Begin `call` on a thread that does not keep the process from ending."""
    future: Future[T] = Future()
    Thread(target=fulfil, args=[future, call], name=name, daemon=True).start()
    return future


def fulfil[T](future: Future[T], call: Callable[[], T]) -> None:
    """Do `call`, and give its result or its error to whoever waits for `future`."""
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - as said
        future.set_exception(error)
    else:
        future.set_result(result)


def within[T](limit: timedelta, name: str, call: Callable[[], T]) -> T:
    """Return what `call` returns; raise TimeoutError where that takes longer than `limit`."""
    return start(name, call).result(limit.total_seconds())
