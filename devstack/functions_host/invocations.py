"""What is invoked and what comes of it: the words that triggers and worker share."""

import asyncio
import functools
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from devstack.functions_host.frames import Kind, encode

_LOG = logging.getLogger("functions_host")


@dataclass(frozen=True, slots=True)
class Function:
    """A function as the worker library indexed it."""

    name: str
    id: str
    bindings: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned; `status` is None unless it answered an HTTP request."""

    status: int | None
    headers: Sequence[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised. Trace and text may quote data: they are for the debug level only."""

    error: str
    place: str
    trace: str
    #: Class and message.
    text: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker ended before the function did."""

    reason: str
    #: The function itself was over its time, so the worker was ended for its sake.
    timed_out: bool = False


Outcome = Returned | Raised | Lost


@dataclass(slots=True)
class Call:
    """One invocation on its way to the worker."""

    id: str
    function: str
    frame: bytes
    done: Callable[[Outcome], None]
    started: float = field(default_factory=time.perf_counter)


class Worker(Protocol):
    """Takes calls and gives each its outcome once."""

    def invoke(self, calls: Sequence[Call]) -> None:
        """Start `calls`."""


def new_call(
    function: Function,
    inputs: dict[str, Any],
    body: bytes,
    done: Callable[[Outcome], None],
) -> Call:
    """Return a call with a new id. `inputs` describes the trigger's argument and metadata."""
    identity = str(uuid.uuid4())
    header = {"id": identity, "function": function.id, "texts": {}, "jsons": {}, **inputs}
    return Call(identity, function.name, encode(Kind.INVOKE, header, body), done)


async def run(worker: Worker, function: Function, inputs: dict[str, Any], body: bytes) -> Outcome:
    """Run one invocation, log how it went, and return its outcome."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Outcome] = loop.create_future()

    def done(outcome: Outcome) -> None:
        loop.call_soon_threadsafe(functools.partial(_settle, ended, outcome))

    call = new_call(function, inputs, body, done)
    # In a thread: a worker that does not read would otherwise hold the loop.
    await asyncio.to_thread(worker.invoke, [call])
    outcome = await ended
    log_outcome(call, outcome, success_level=logging.INFO)
    return outcome


def _settle(ended: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not ended.done():
        ended.set_result(outcome)


def log_outcome(call: Call, outcome: Outcome, *, success_level: int) -> None:
    """Write one line: function, invocation, duration, outcome; the trace at debug level."""
    match outcome:
        case Returned():
            if _LOG.isEnabledFor(success_level):
                _LOG.log(success_level, "%s %s returned after %.0f ms", *_facts(call))
        case Raised(error=error, place=place, trace=trace):
            _LOG.error("%s %s raised after %.0f ms: %s at %s", *_facts(call), error, place)
            _LOG.debug("%s %s trace:\n%s", call.function, call.id, trace)
        case Lost(reason=reason):
            _LOG.error("%s %s was lost after %.0f ms: %s", *_facts(call), reason)


def _facts(call: Call) -> tuple[str, str, float]:
    return call.function, call.id, (time.perf_counter() - call.started) * 1000
