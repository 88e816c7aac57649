"""Activities with retry options: the library counts attempts, and the host must keep in step.

After a failed attempt the library takes one number for a timer, and after the timer one for the
next attempt, without asking for either. After the last attempt it waits for one timer more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Retry:
    """An activity under retry options, and what it waits for."""

    name: str
    input: str
    interval_ms: int
    max_attempts: int
    attempt: int = 1

    @property
    def interval(self) -> timedelta:
        """How long to wait after a failure."""
        return timedelta(milliseconds=self.interval_ms)

    @property
    def is_last(self) -> bool:
        """Tell whether no further attempt follows."""
        return self.attempt >= self.max_attempts

    def next(self) -> Self:
        """Return the attempt after this one."""
        return replace(self, attempt=self.attempt + 1)

    @classmethod
    def from_action(cls, facts: Mapping[str, Any]) -> Self:
        """Return the first attempt that the action asks for."""
        options = facts["retryOptions"]
        return cls(
            facts["functionName"],
            facts["input"],
            int(options["firstRetryIntervalInMilliseconds"]),
            int(options["maxNumberOfAttempts"]),
        )
