"""An answer that costs requests, kept for a while."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from typing import Final

#: Whoever asks more often gets the same answer again: an alarm looks once a minute.
KEPT_FOR: Final = timedelta(minutes=1)


class Kept[Answer]:
    """Asks at most once a minute. Safe for several threads: all but the first wait."""

    def __init__(
        self, ask: Callable[[], Answer], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._lock = Lock()
        self._kept: tuple[float, Answer] | None = None

    def read(self) -> Answer:
        """Return the answer, up to a minute old."""
        with self._lock:
            now = self._monotonic()
            if self._kept is None or now - self._kept[0] >= KEPT_FOR.total_seconds():
                answer = self._ask()
                self._kept = (self._monotonic(), answer)
            return self._kept[1]
