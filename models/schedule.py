"""When a job is due: a cron expression in a time zone, right across clock changes."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import CroniterError, croniter

_WITH_SECONDS = 6
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)

#: No clock change is larger.
_LONGEST_GAP = timedelta(hours=24)

_PROBE = datetime(2024, 1, 1)  # noqa: DTZ001 - wall-clock time; a leap year, so that 29 February exists


@dataclass(frozen=True, slots=True)
class Schedule:
    """Five cron fields, or six with seconds first, as in the timers of Azure Functions.

    Day of month and day of week must both match, as there. An expression whose hour field begins
    with `*` runs by elapsed time: every 15 minutes means every 15 minutes, also while clocks
    change. Any other runs by the clock on the wall: once in an hour that is repeated, and as much
    later as the clocks were moved when its hour is left out.
    """

    expression: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, expression: str, time_zone: str) -> Self:
        """Raise ValueError, which says what is wrong, where one of both cannot be read."""
        try:
            zone = ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            msg = f"time zone {time_zone!r} is not known; use a name such as Europe/Berlin"
            raise ValueError(msg) from None
        try:
            _cron(expression, _PROBE).get_next(datetime)
        except (CroniterError, ValueError) as error:
            msg = f"cron expression {expression!r}: {error}"
            raise ValueError(msg) from None
        return cls(expression, zone)

    def is_due(self, last_run: datetime | None, now: datetime) -> bool:
        """Tell whether a run was to begin after `last_run`, at `now` at the latest."""
        return last_run is None or self.next_after(last_run) <= now

    def next_after(self, moment: datetime) -> datetime:
        """Return the first time after `moment` (both with zone) at which a run begins, in UTC."""
        start = moment.astimezone(UTC)
        hour = self.expression.split()[-4]
        return self._by_elapsed_time(start) if hour.startswith("*") else self._by_wall_clock(start)

    def _by_wall_clock(self, start: datetime) -> datetime:
        # Begin early: a time that a gap left out lies, on the wall, before the moment after it.
        wall = start.astimezone(self.zone).replace(tzinfo=None) - _LONGEST_GAP
        times = _cron(self.expression, wall)
        while True:
            on_the_wall: datetime = times.get_next(datetime)
            # fold=0 is the first of two such hours; in a gap it is the offset from before it.
            candidate = on_the_wall.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
            if candidate > start:
                return candidate

    def _by_elapsed_time(self, start: datetime) -> datetime:
        while True:
            offset = self._offset(start + _SECOND)
            local = (start + offset).replace(tzinfo=None)
            on_the_wall: datetime = _cron(self.expression, local).get_next(datetime)
            candidate = on_the_wall.replace(tzinfo=UTC) - offset
            change = self._next_change(start + _SECOND, candidate)
            if change is None:
                return candidate
            # From here on the wall shows another time; the moment of the change itself counts.
            start = change - _SECOND

    def _next_change(self, start: datetime, end: datetime) -> datetime | None:
        """Return the first whole second in (start, end] whose offset differs from that at start."""
        offset = self._offset(start)
        while start < end:
            step = min(start + _DAY, end)
            if self._offset(step) != offset:
                return self._bisect(start, step, offset)
            start = step
        return None

    def _bisect(self, before: datetime, after: datetime, offset: timedelta) -> datetime:
        low, high = int(before.timestamp()), math.ceil(after.timestamp())
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(datetime.fromtimestamp(middle, UTC)) == offset:
                low = middle
            else:
                high = middle
        return datetime.fromtimestamp(high, UTC)

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self.zone).utcoffset() or timedelta()


def _has_seconds(expression: str) -> bool:
    """Return whether `expression` has seconds; raise ValueError where it has too few fields."""
    fields = len(expression.split())
    if fields not in (_WITH_SECONDS - 1, _WITH_SECONDS):
        msg = f"it has {fields} fields; write five, or six with seconds first"
        raise ValueError(msg)
    return fields == _WITH_SECONDS


def _cron(expression: str, start: datetime) -> croniter:
    return croniter(expression, start, second_at_beginning=_has_seconds(expression), day_or=False)
