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
        self._next = clock()

    @property
    def at_once(self) -> int:
        """How many messages are worked on together: a second's worth, or a whole batch."""
        if self._rate is None:
            return MESSAGES_PER_BATCH
        return min(max(1, math.floor(self._rate)), MESSAGES_PER_BATCH)

    def after(self, count: int) -> None:
        """Wait until so many messages have had their time."""
        if self._rate is None:
            return
        now = self._clock()
        # Time that went by unused is not made up for by a rush.
        self._next = max(self._next, now - 1) + count / self._rate
        if self._next > now:
            self._wait(self._next - now)
