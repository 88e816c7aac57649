"""Durable detection, as an operator uses it: one start, its state, and the watermarks by hand."""

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

from devstack.demo.commands import run
from devstack.demo.scenario import host_key
from devstack.processes import StackError
from devstack.stack import Stack

_START = "StartGetChangesOrchestration"
_RUNNING = ("Pending", "Running")


@dataclass(frozen=True, slots=True)
class Orchestration:
    """An instance that was started; `address` is where it tells its state."""

    instance: str
    address: str

    def has_ended(self) -> bool:
        """Whether it has completed; raise StackError where it ended otherwise."""
        state = _ask(urllib.request.Request(self.address))  # noqa: S310 - our own host
        status: str = state["runtimeStatus"]
        if status not in (*_RUNNING, "Completed"):
            msg = f"orchestration {self.instance} ended as {status}: {state['output']}"
            raise StackError(msg)
        return status == "Completed"


def start(stack: Stack) -> Orchestration:
    """Have the host detect all changes; it does not wait for the end."""
    url = f"{stack.host.facts()['url']}/api/{_START}"
    headers = {"x-functions-key": host_key(stack, _START)}
    answer = _ask(urllib.request.Request(url, b"", headers))  # noqa: S310 - as above
    return Orchestration(answer["id"], answer["statusQueryGetUri"])


def set_watermark(stack: Stack, job: str, value: str) -> None:
    """Have a job read its source from there on."""
    run(
        f"the operator console did not set the watermark of {job}",
        *("operator_console", "watermarks", "set", job, value),
        SYNC_STORAGE=stack.app_settings()["SYNC_STORAGE"],
    )


def _ask(request: urllib.request.Request) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            found: dict[str, Any] = json.loads(answer.read())
    except OSError as error:
        msg = f"the Functions host did not answer as durable functions do ({error})"
        raise StackError(msg) from error
    return found
