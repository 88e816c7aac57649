"""How often and how late a failed delivery is tried again: policies, which are pure functions."""

from dataclasses import dataclass
from datetime import timedelta

from delivery.errors import UnprocessableError


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Deliver once more, no sooner than `after`."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Dead-letter, for `reason`."""

    reason: str


Decision = TryAgain | GiveUp

#: The broker's own word for it, so that operators look for one word only.
ATTEMPTS_EXHAUSTED = "MaxDeliveryCountExceeded"


@dataclass(frozen=True, slots=True)
class Squared:
    """Before attempt n (2 and up), n² units pass; attempts are counted from 1.

    With a unit of a second and ten attempts: 4, 9 … 100 s, 384 s in all.
    """

    unit: timedelta
    max_attempts: int

    def wait_before(self, attempt: int) -> timedelta:
        """Return how long attempt number `attempt` waits; the first one does not."""
        return self.unit * attempt**2 if attempt > 1 else timedelta()

    def decide(self, error: Exception, attempt: int) -> Decision:
        """Return what follows the failure of attempt number `attempt`."""
        if isinstance(error, UnprocessableError):
            return GiveUp(error.code)
        if attempt >= self.max_attempts:
            return GiveUp(ATTEMPTS_EXHAUSTED)
        return TryAgain(self.wait_before(attempt + 1))
