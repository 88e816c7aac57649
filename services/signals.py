"""How a person ends it: at the first signal in order, at the second at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at any signal that asks for the end."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handling(interrupt):
        yield


@contextmanager
def stopping(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at the first signal; the second one is for whoever handled them before."""
    before = _handlers()

    def note(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        _restore(before)

    with _handling(note):
        yield


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = _handlers()
    for number in _NUMBERS:
        signal.signal(number, handler)
    try:
        yield
    finally:
        _restore(before)


def _handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in _NUMBERS}


def _restore(before: dict[int, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
