"""Events of an instance's history, in the extension's own form, which the library replays."""

import enum
from datetime import UTC, datetime
from typing import Any

Event = dict[str, Any]

#: What the extension gives an event that answers another one.
NO_ID = -1


class EventType(enum.IntEnum):
    """The numbers by which history names its events."""

    EXECUTION_STARTED = 0
    EXECUTION_COMPLETED = 1
    EXECUTION_TERMINATED = 3
    TASK_SCHEDULED = 4
    TASK_COMPLETED = 5
    TASK_FAILED = 6
    TIMER_CREATED = 10
    TIMER_FIRED = 11
    ORCHESTRATOR_STARTED = 12
    ORCHESTRATOR_COMPLETED = 13
    EVENT_SENT = 14
    EVENT_RAISED = 15


def event(kind: EventType, now: datetime, event_id: int = NO_ID, /, **facts: Any) -> Event:  # noqa: ANN401 - whatever JSON holds
    """Return an event that happened `now`."""
    when = timestamp(now)
    return {"EventType": int(kind), "EventId": event_id, "Timestamp": when, **facts}


def execution_started(now: datetime, *, name: str, raw_input: str | None) -> Event:
    """Return the event that begins an execution. The library insists on a `Version`."""
    return event(EventType.EXECUTION_STARTED, now, Name=name, Version=None, Input=raw_input)


def task_completed(now: datetime, task: int, result: str) -> Event:
    """Return an activity's success; `result` is JSON."""
    return event(EventType.TASK_COMPLETED, now, TaskScheduledId=task, Result=result)


def task_failed(now: datetime, task: int, *, reason: str, details: str) -> Event:
    """Return an activity's failure, which the library turns into an exception."""
    return event(EventType.TASK_FAILED, now, TaskScheduledId=task, Reason=reason, Details=details)


def timestamp(moment: datetime) -> str:
    """Return `moment` as history writes it: UTC, to the microsecond, with a Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
