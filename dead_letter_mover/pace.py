"""How fast messages go back."""

import math
from collections.abc import Callable

from services.broker_limits import MESSAGES_PER_BATCH


class Pace:
    """At most so many messages a second; None is as fast as it goes.

    `wait` gets seconds, and may return earlier where the run is to stop.
    """

    def __init__(
        self, rate: float | None, clock: Callable[[], float], wait: Callable[[float], object]
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._wait = wait
        self._start: float | None = None

    @property
    def at_once(self) -> int:
        """How many messages are worked on together: a second's worth, or a whole batch."""
        if self._rate is None:
            return MESSAGES_PER_BATCH
        return min(max(1, math.floor(self._rate)), MESSAGES_PER_BATCH)

    def after(self, count: int) -> None:
        """Wait until so many messages have had their time, from when the wait before ended.

        Time that went by unused is not made up for by a rush.
        """
        if self._rate is None:
            return
        now = self._clock()
        start = now if self._start is None else self._start
        if (left := start + count / self._rate - now) > 0:
            self._wait(left)
        self._start = self._clock()
