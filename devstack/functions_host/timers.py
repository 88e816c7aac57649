"""Timer triggers: schedules, the status that outlives a restart, and the worker's timer JSON."""

import asyncio
import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from devstack import private_file
from devstack.functions_host.errors import SettingsError
from devstack.functions_host.invocations import Function, run
from devstack.functions_host.schedule import (
    Schedule,
    TimerStatus,
    is_monitored_by_default,
    is_past_due,
    parse_schedule,
    status_after_run,
    status_at_first_start,
)
from devstack.functions_host.settings import resolve_names
from devstack.functions_host.triggers import Services

_LOG = logging.getLogger("functions_host.timers")

#: A wait is cut into pieces, so that a clock that was set does not leave a timer asleep.
_LONGEST_SLEEP = timedelta(seconds=30)
#: .NET's DateTime.MinValue stands for "never".
_NEVER = "0001-01-01T00:00:00+00:00"


class StatusFile:
    """The status of every monitored timer in one JSON file, replaced whole at each change.

    Only the event loop's thread uses it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, name: str) -> TimerStatus | None:
        """Return what is kept of the timer `name`; times without an offset mean nothing."""
        entry = self._read().get(name)
        if entry is None:
            return None
        try:
            last = entry["last"]
            status = TimerStatus(
                last=datetime.fromisoformat(last) if last else None,
                next=datetime.fromisoformat(entry["next"]),
                last_updated=datetime.fromisoformat(entry["lastUpdated"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SettingsError(self._complaint()) from error
        moments = [status.last or status.last_updated, status.next, status.last_updated]
        return None if any(moment.tzinfo is None for moment in moments) else status

    def put(self, name: str, status: TimerStatus) -> None:
        """Keep `status` for the timer `name`."""
        entries = self._read()
        entries[name] = {
            "last": status.last.isoformat() if status.last else None,
            "next": status.next.isoformat(),
            "lastUpdated": status.last_updated.isoformat(),
        }
        private_file.write(self._path, json.dumps(entries, indent=2).encode())

    def _read(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, RecursionError, ValueError) as error:
            raise SettingsError(self._complaint()) from error
        if not isinstance(entries, dict):
            raise SettingsError(self._complaint())
        return entries

    def _complaint(self) -> str:
        return f"{self._path}: not a file of timer statuses; delete it, and timers start anew."


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a timer waits: until the clock says so, and never longer than it was to be at first.

    A clock that is set forward brings the run closer; one that is set back does not keep it away.
    """

    due: datetime
    since: datetime
    since_monotonic: float

    def left(self, now: datetime, monotonic: float) -> timedelta:
        """Return what is left of the wait, nothing or less where it is over."""
        elapsed = timedelta(seconds=monotonic - self.since_monotonic)
        return min(self.due - now, self.due - self.since - elapsed)


class TimerTrigger:
    """Runs one function on its schedule, never twice at once."""

    def __init__(self, function: Function, binding: dict[str, Any], services: Services) -> None:
        self.function = function
        self._argument: str = binding["name"]
        self._worker = services.worker
        self._durable = services.durable
        self._run_on_startup = binding.get("runOnStartup") is True
        text = resolve_names(binding["schedule"], services.environment, function=function.name)
        self._schedule = _parsed(text, function.name)
        monitored = binding.get("useMonitor")
        if monitored is None:
            monitored = is_monitored_by_default(self._schedule, datetime.now(UTC))
        self._statuses = StatusFile(services.data / "timers.json") if monitored else None
        self._status = self._statuses.get(function.name) if self._statuses else None
        self._listening: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Run at once if that is due or asked for, then on schedule."""
        self._listening = asyncio.create_task(self._listen())

    def stop_receiving(self) -> None:
        """Let the running invocation end and start no other."""
        self._stopped.set()

    async def close(self) -> None:
        """Wait for the running invocation."""
        if self._listening is not None:
            await self._listening

    def check_by_hand(self) -> None:
        """Pass: a timer can always be started by hand."""

    async def run_by_hand(self, text: str) -> None:
        """Run now. A timer takes no input: `text` is not used, as on the platform."""
        _ = text
        await self._invoke(past_due=False)

    async def _listen(self) -> None:
        now = datetime.now(UTC)
        if self._status is None:
            self._keep(status_at_first_start(self._schedule, now))
        elif is_past_due(self._schedule, self._status, now):
            await self._run_scheduled(now, past_due=True)
            now = datetime.now(UTC)
        if self._run_on_startup and not self._ran(now):
            await self._run_scheduled(now, past_due=False)
        while not self._stopped.is_set():
            # From now on, not from the last tick: what came during a run is dropped.
            due = self._schedule.next_after(datetime.now(UTC))
            if await self._wait_until(due):
                await self._run_scheduled(due, past_due=False)

    def _ran(self, now: datetime) -> bool:
        """Tell whether this start has run the function already because it was past due."""
        last = self._status.last if self._status else None
        return last is not None and self._schedule.next_after(last) > now

    async def _wait_until(self, due: datetime) -> bool:
        """Sleep until `due`; False where the host stops before."""
        wait = Wait(due, datetime.now(UTC), time.monotonic())
        while (left := wait.left(datetime.now(UTC), time.monotonic())) > timedelta(0):
            seconds = min(left, _LONGEST_SLEEP).total_seconds()
            try:
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()
            except TimeoutError:
                continue
            return False
        return True

    async def _run_scheduled(self, due: datetime, *, past_due: bool) -> None:
        await self._worker.is_ready()
        if self._stopped.is_set():
            return
        if past_due:
            _LOG.info("%s is past due and runs now", self.function.name)
        await self._invoke(past_due=past_due)
        self._keep(status_after_run(self._schedule, due))

    async def _invoke(self, *, past_due: bool) -> None:
        body = timer_json(self._status, past_due=past_due).encode()
        inputs = {"argument": self._argument, "kind": "json", **self._durable.inputs(self.function)}
        await run(self._worker, self.function, inputs, body)

    def _keep(self, status: TimerStatus) -> None:
        if self._statuses is None:
            return
        self._status = status
        try:
            self._statuses.put(self.function.name, status)
        except (OSError, SettingsError) as error:
            # The timer goes on: only what a later start would know is lost.
            _LOG.error("%s: its status is not kept: %s", self.function.name, error)


def _parsed(text: str, function: str) -> Schedule:
    try:
        return parse_schedule(text)
    except ValueError as error:
        msg = f"function '{function}': the schedule '{text}' is not valid: {error}."
        raise SettingsError(msg) from error


def timer_json(status: TimerStatus | None, *, past_due: bool) -> str:
    """Return the timer's argument in the form that Azure's host gives to a worker."""
    kept = status and {
        "Last": status.last.isoformat() if status.last else _NEVER,
        "Next": status.next.isoformat(),
        "LastUpdated": status.last_updated.isoformat(),
    }
    facts = {
        "Schedule": {"AdjustForDST": True},
        "ScheduleStatus": kept,
        "IsPastDue": past_due,
    }
    return json.dumps(facts)
