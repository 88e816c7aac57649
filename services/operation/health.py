"""`GetHealth`: whether the app can do its work, part by part, within a few seconds."""

import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from threading import Lock
from typing import Any

from azure.core.exceptions import HttpResponseError

from delivery.errors import ConfigurationError, DeliveryError
from services.time_limit import start

#: The whole answer takes no longer, whatever hangs.
LIMIT = timedelta(seconds=8)

#: A check that hangs longer than this is left alone, and another one may begin …
_STUCK_AFTER = timedelta(minutes=1)

#: … but no more than this, since a thread that hangs cannot be ended.
_MOST_AT_ONCE = 3

_ADDRESS = re.compile(r"\w[\w+.-]*://\S+")

#: The name under which trouble with finding the connections is reported.
_CONNECTIONS = "connections"


class State(StrEnum):
    """From good to bad."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; `detail` names what is wrong and what to do."""

    state: State = State.HEALTHY
    detail: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """Something that is checked; `remedy` is what to do where it is refused or not reached."""

    check: Callable[[], Finding]
    remedy: str


@dataclass(frozen=True, slots=True)
class Health:
    """An HTTP status and what goes into the JSON body."""

    status: int
    content: dict[str, Any]


class HealthService:
    """Checks all parts at once. One that hangs or fails is reported and stops no other.

    `connections` returns the parts that the configuration names.
    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        connections: Callable[[], Mapping[str, Part]],
        *,
        now: Callable[[], datetime],
        limit: timedelta = LIMIT,
    ) -> None:
        self._parts = parts
        self._connections = connections
        self._now = now
        self._limit = limit
        self._lock = Lock()
        self._running: dict[str, list[_Running]] = {}
        self._listing: Future[Mapping[str, Part]] | None = None

    def execute(self) -> Health:
        """Answer 200 where the app works, if with restrictions; 503 where it cannot."""
        deadline = time.monotonic() + self._limit.total_seconds()
        running = {name: self._start(name, part) for name, part in self._parts.items()}
        try:
            found = self._list().result(self._limit.total_seconds() / 2)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            found = {}
            trouble = _failed(error, "see the part configuration")
            running[_CONNECTIONS] = _Running(_done(trouble), time.monotonic(), "")
        running |= {name: self._start(name, part) for name, part in found.items()}
        wait_for([one.future for one in running.values()], max(0, deadline - time.monotonic()))
        answers = {name: one.answer(self._limit) for name, one in running.items()}
        state = max((finding.state for finding, _ in answers.values()), key=list(State).index)
        return Health(
            HTTPStatus.SERVICE_UNAVAILABLE if state is State.UNHEALTHY else HTTPStatus.OK,
            {
                "status": state.value,
                "checkedAt": self._now().isoformat(),
                "parts": {name: _shown(*answer) for name, answer in answers.items()},
            },
        )

    def _list(self) -> Future[Mapping[str, Part]]:
        """Begin to list the connections, or join another caller that still waits for them."""
        with self._lock:
            if self._listing is None or self._listing.done():
                self._listing = start("health-connections", self._connections)
            return self._listing

    def _start(self, name: str, part: Part) -> "_Running":
        """Begin a check, or join the one of another caller that still runs."""
        with self._lock:
            running = [one for one in self._running.get(name, ()) if not one.future.done()]
            self._running[name] = running
            if running and (not running[-1].is_stuck() or len(running) >= _MOST_AT_ONCE):
                return running[-1]
            running.append(_Running.of(name, part))
            return running[-1]


@dataclass(frozen=True, slots=True)
class _Running:
    future: "Future[tuple[Finding, float]]"
    started: float
    remedy: str

    @classmethod
    def of(cls, name: str, part: Part) -> "_Running":
        started = time.monotonic()

        def check() -> tuple[Finding, float]:
            try:
                finding = part.check()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
                finding = _failed(error, part.remedy)
            return finding, time.monotonic() - started

        return cls(start(f"health-{name}", check), started, part.remedy)

    def is_stuck(self) -> bool:
        return time.monotonic() - self.started > _STUCK_AFTER.total_seconds()

    def answer(self, limit: timedelta) -> tuple[Finding, float]:
        if self.future.done():
            return self.future.result()
        detail = f"no answer within {limit.total_seconds():g} s; {self.remedy}"
        return Finding(State.UNHEALTHY, detail), time.monotonic() - self.started


def _done(finding: Finding) -> "Future[tuple[Finding, float]]":
    future: Future[tuple[Finding, float]] = Future()
    future.set_result((finding, 0.0))
    return future


def _failed(error: Exception, remedy: str) -> Finding:
    if isinstance(error, ConfigurationError):
        return Finding(State.UNHEALTHY, str(error))  # it says itself what to do
    if isinstance(error, DeliveryError):
        return Finding(State.UNHEALTHY, f"{error}; {remedy}")
    # The texts of other errors may hold addresses and more.
    what = type(error).__name__
    if isinstance(error, HttpResponseError) and error.status_code:
        what = f"HTTP {error.status_code}, {what}"
    return Finding(State.UNHEALTHY, f"not reached, or refused ({what}); {remedy}")


def _shown(finding: Finding, seconds: float) -> dict[str, Any]:
    shown: dict[str, Any] = {"status": finding.state.value, "milliseconds": round(seconds * 1000)}
    if finding.detail:
        shown["detail"] = _ADDRESS.sub("(address)", finding.detail)
    return {**shown, **finding.figures}
