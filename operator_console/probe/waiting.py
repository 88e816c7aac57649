"""Time as this machine has it."""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """Real time."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        """Return a time that never jumps."""
        return timedelta(seconds=time.monotonic())

    def sleep(self, duration: timedelta) -> None:
        """Wait."""
        time.sleep(duration.total_seconds())
