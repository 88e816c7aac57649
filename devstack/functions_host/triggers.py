"""What a trigger is to the host, and what it is given to work with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from devstack.functions_host.admission import Admission
from devstack.functions_host.durable.hub import Hub
from devstack.functions_host.invocations import Function
from devstack.functions_host.settings import HostSettings
from devstack.functions_host.worker_process import WorkerProcess


class NotByHandError(Exception):
    """This trigger cannot be started by hand; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Services:
    """What triggers share."""

    worker: WorkerProcess
    admission: Admission
    durable: Hub
    settings: HostSettings
    #: Settings of the app: the environment over `local.settings.json`.
    environment: Mapping[str, str]
    data: Path
    receivers_per_queue: int


class Trigger(Protocol):
    """Starts one function for a reason of its own kind. Refuses in its constructor."""

    function: Function

    def __init__(self, function: Function, binding: dict[str, Any], services: Services) -> None: ...

    async def start(self) -> None:
        """Begin to listen."""

    def stop_receiving(self) -> None:
        """Start no more invocations; those that run may end."""

    async def close(self) -> None:
        """Let go of everything, once the running invocations have ended."""

    async def run_by_hand(self, text: str) -> None:
        """Run the function once with `text` as its input, or raise NotByHandError."""

    def check_by_hand(self) -> None:
        """Raise NotByHandError where `run_by_hand` would."""
