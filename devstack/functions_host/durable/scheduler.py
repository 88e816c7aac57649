"""Sees to it that what is due is done: each instance and entity by itself, the rest side by side.

One task looks for what is due whenever something has changed, and starts a task for each piece.
What the worker loses is done again, later and later where it keeps killing the worker. What the
file does not take is held, and tried again.
"""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from devstack.functions_host.durable.store import Store
from devstack.functions_host.durable.work import Commit, Work

_LOG = logging.getLogger("functions_host.durable")

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0
_DOUBLINGS = 10
#: Between two tries where the disk is full, say.
_FILE_PAUSE_SECONDS = 1.0
#: asyncio's timeouts and the wall clock differ; so often at least timers are looked at.
_LONGEST_SLEEP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How many of each kind may be in the worker at once."""

    orchestrators: int = 5
    activities: int = 10
    entities: int = 10


class Readiness(Protocol):
    """A worker that may be restarting."""

    async def is_ready(self) -> bool:
        """Wait for it; False where it does not come back."""


@dataclass(slots=True)
class _Lane[K: Hashable]:
    """What is in the worker of one kind, and how often each was lost."""

    limit: int
    busy: set[K] = field(default_factory=set)
    losses: dict[K, int] = field(default_factory=dict)

    @property
    def room(self) -> int:
        return self.limit - len(self.busy)


class Scheduler:
    """Runs durable work until it is told to stop."""

    def __init__(
        self,
        store: Store,
        work: Work,
        worker: Readiness,
        limits: Limits,
        file_pause: float = _FILE_PAUSE_SECONDS,
    ) -> None:
        self._store = store
        self._work = work
        self._worker = worker
        self._file_pause = file_pause
        self._orchestrators = _Lane[str](limits.orchestrators)
        self._activities = _Lane[tuple[str, int]](limits.activities)
        self._entities = _Lane[str](limits.entities)
        self._wake = asyncio.Event()
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take up what was left, and go on."""
        self._pump = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Look at once for what is due: something was put into the store."""
        self._wake.set()

    def stop(self) -> None:
        """Start nothing more; what runs may end, and is kept."""
        self._stopped.set()
        self._wake.set()

    async def close(self) -> None:
        """Wait for what runs. What the worker lost stays in the store for the next start."""
        if self._pump is not None:
            await self._pump
        await asyncio.gather(*self._tasks)

    async def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                self._store.fire_timers(datetime.now(UTC))
                self._start_what_is_due()
                seconds = self._sleep_seconds()
            except sqlite3.Error as error:
                self._store.trouble.met(error)
                await self._pause(self._file_pause)
            except Exception:  # noqa: BLE001 - whatever it is, durable functions must not stand still
                _LOG.exception("looking for durable work failed in the host and is tried again")
                await self._pause(_LONGEST_PAUSE_SECONDS)
            else:
                await _within(seconds, self._wake)

    def _sleep_seconds(self) -> float:
        due = self._store.next_timer()
        if due is None:
            return _LONGEST_SLEEP_SECONDS
        left = (due - datetime.now(UTC)).total_seconds()
        return min(max(left, 0.0), _LONGEST_SLEEP_SECONDS)

    def _start_what_is_due(self) -> None:
        store, work = self._store, self._work
        steps = self._orchestrators
        instances = store.due_instances(steps.busy)[: steps.room]
        self._start(steps, ((name, partial(work.step, name)) for name in instances))
        calls = self._activities
        activities = store.due_activities(calls.busy, calls.room)
        self._start(calls, ((call.key, partial(work.call, call)) for call in activities))
        batches = self._entities
        entities = store.due_entities(batches.busy)[: batches.room]
        self._start(batches, ((name, partial(work.operate, name)) for name in entities))

    def _start[K: Hashable](
        self, lane: _Lane[K], pieces: Iterable[tuple[K, Callable[[], Awaitable[Commit | None]]]]
    ) -> None:
        for key, piece in pieces:
            lane.busy.add(key)
            task = asyncio.create_task(self._do(lane, key, piece))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _do[K: Hashable](
        self, lane: _Lane[K], key: K, piece: Callable[[], Awaitable[Commit | None]]
    ) -> None:
        try:
            await self._worker.is_ready()
            if self._stopped.is_set():
                return
            commit = await piece()
            if commit is None:
                lane.losses[key] = lane.losses.get(key, 0) + 1
                await self._pause(_FIRST_PAUSE_SECONDS * 2 ** min(lane.losses[key], _DOUBLINGS))
            else:
                lane.losses.pop(key, None)
                await self._keep(commit)
        except sqlite3.Error as error:
            self._store.trouble.met(error)
            await self._pause(self._file_pause)
        except Exception:  # noqa: BLE001 - nothing was committed, so it is due again
            _LOG.exception("durable work failed in the host and is tried again")
            await self._pause(_LONGEST_PAUSE_SECONDS)
        finally:
            lane.busy.discard(key)
            self._wake.set()

    async def _keep(self, commit: Commit) -> None:
        """Commit what was done, at last; where a stop comes first, it is done again."""
        while True:
            try:
                commit()
            except sqlite3.Error as error:
                self._store.trouble.met(error)
                if self._stopped.is_set():
                    return
                await self._pause(self._file_pause)
            else:
                return

    async def _pause(self, seconds: float) -> None:
        await _within(min(seconds, _LONGEST_PAUSE_SECONDS), self._stopped)


async def _within(seconds: float, happens: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await happens.wait()
