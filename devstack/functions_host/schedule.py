"""When a timer is due. Pure: every function takes the time that it needs to know; all of it UTC."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, repeat
from typing import Protocol

from croniter import CroniterError, croniter

from devstack.functions_host.time_span import parse_time_span

_CRON_FIELDS_WITH_SECONDS = 6
_NAMES = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
#: What NCRONTAB knows. Croniter knows more (`L`, `#`, `?`), which Azure would refuse.
_NCRONTAB_FIELD = re.compile(rf"(?:[0-9*,/-]|{_NAMES})+", re.IGNORECASE)
_ONE_MINUTE = timedelta(minutes=1)
_LOOK_AHEAD = 5
#: A century. A few more of them, and the calendar ends before the look-ahead does.
_LONGEST_INTERVAL = timedelta(days=36_525)


class Schedule(Protocol):
    """A rule that says which moment comes next."""

    def next_after(self, moment: datetime) -> datetime:
        """Return the first due moment that is later than `moment`."""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """NCRONTAB: six fields beginning with seconds; day of month AND day of week must match."""

    expression: str

    def next_after(self, moment: datetime) -> datetime:
        """Return the first matching second that is later than `moment`."""
        rule = croniter(self.expression, moment, second_at_beginning=True, day_or=False)
        due: datetime = rule.get_next(datetime)
        return due


@dataclass(frozen=True, slots=True)
class IntervalSchedule:
    """A TimeSpan: due again a fixed time after the last run."""

    interval: timedelta

    def next_after(self, moment: datetime) -> datetime:
        """Return `moment` plus the interval."""
        return moment + self.interval


@dataclass(frozen=True, slots=True)
class TimerStatus:
    """What is kept of a monitored timer between two starts of the host."""

    #: When it was last due and ran; None before its first run.
    last: datetime | None
    next: datetime
    last_updated: datetime


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that `text` means, or raise ValueError with the reason."""
    fields = text.split()
    if len(fields) == 1:
        interval = parse_time_span(text.strip())
        if interval <= timedelta(0):
            msg = "the interval is not positive"
            raise ValueError(msg)
        if interval > _LONGEST_INTERVAL:
            msg = f"the interval is longer than {_LONGEST_INTERVAL.days} days"
            raise ValueError(msg)
        return IntervalSchedule(interval)
    if len(fields) == _CRON_FIELDS_WITH_SECONDS - 1:
        fields = ["0", *fields]  # as the platform reads the five-field form
    if len(fields) != _CRON_FIELDS_WITH_SECONDS:
        msg = f"{len(fields)} fields instead of six (second minute hour day month weekday)"
        raise ValueError(msg)
    for field in fields:
        if not _NCRONTAB_FIELD.fullmatch(field):
            msg = f"'{field}' is not NCRONTAB"
            raise ValueError(msg)
    schedule = CronSchedule(" ".join(fields))
    try:
        schedule.next_after(datetime.now(UTC))
    except CroniterError as error:
        raise ValueError(str(error)) from error
    return schedule


def is_monitored_by_default(schedule: Schedule, now: datetime) -> bool:
    """Tell whether the platform keeps the status of a timer that does not ask for it.

    It does not where the timer is due more than once a minute.
    """
    moments = [now]
    for _ in repeat(None, _LOOK_AHEAD):
        moments.append(schedule.next_after(moments[-1]))
    return all(later - earlier >= _ONE_MINUTE for earlier, later in pairwise(moments[1:]))


def is_past_due(schedule: Schedule, status: TimerStatus | None, now: datetime) -> bool:
    """Tell whether a run was missed while the host was down.

    The schedule decides, not the stored `next`: it may have been changed in between.
    """
    if status is None:
        return False
    return schedule.next_after(status.last or status.last_updated) < now


def status_at_first_start(schedule: Schedule, now: datetime) -> TimerStatus:
    """Return the status of a timer that has never run."""
    return TimerStatus(last=None, next=schedule.next_after(now), last_updated=now)


def status_after_run(schedule: Schedule, due: datetime) -> TimerStatus:
    """Return the status of a timer whose run for `due` has ended."""
    return TimerStatus(last=due, next=schedule.next_after(due), last_updated=due)
