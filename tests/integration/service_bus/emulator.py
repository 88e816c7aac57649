"""Starts the real emulator as a process of its own, as a developer would."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from devstack import ready

ROOT = Path(__file__).parents[3]
KEY = "a-key-for-tests"
START_SECONDS = 15


def a_configuration(queues: dict[str, dict[str, object]]) -> dict[str, object]:
    entries = [{"Name": name, "Properties": properties} for name, properties in queues.items()]
    return {"UserConfig": {"Namespaces": [{"Name": "tests", "Queues": entries}]}}


class PromptClient(ServiceBusClient):
    """The SDK's client, without the keep-alive threads that delay each close by a second."""

    def get_queue_sender(self, queue_name: str, **options: Any) -> ServiceBusSender:
        return super().get_queue_sender(queue_name, **{"keep_alive": 0} | options)

    def get_queue_receiver(self, queue_name: str, **options: Any) -> ServiceBusReceiver:
        return super().get_queue_receiver(queue_name, **{"keep_alive": 0} | options)


class Emulator:
    """One emulator's process, folder and ports; it can be killed and started again."""

    def __init__(
        self, folder: Path, queues: dict[str, dict[str, object]], *options: str, port: int = 0
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = port
        self.ready_file = folder / "ready.json"
        self._configuration = folder / "servicebus.json"
        self._configuration.write_text(json.dumps(a_configuration(queues)), encoding="utf-8")
        self._options = options
        self.facts: dict[str, str | int] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "devstack.service_bus"),
            *("--config", str(self._configuration), "--data", str(self.data)),
            *("--ready-file", str(self.ready_file), "--port", str(self.port)),
            *self._options,
            *options,
        ]

    def start(self, preexec: Callable[[], None] | None = None) -> "Emulator":
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env={**os.environ, "SERVICE_BUS_EMULATOR_KEY": KEY},
                cwd=ROOT,
                stderr=log,
                preexec_fn=preexec,  # noqa: PLW1509 - single-threaded here; it sets a limit only
            )
        eventually(lambda: self._is_ready(self.process))
        self.facts = ready.read(self.ready_file) or {}
        self.port = int(self.facts["port"])
        return self

    def _is_ready(self, process: "subprocess.Popen[bytes] | None") -> bool:
        facts = ready.read(self.ready_file)
        assert process is not None
        assert process.poll() is None, self.log()
        return facts is not None and facts["pid"] == process.pid

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(10)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    @property
    def connection_string(self) -> str:
        return str(self.facts["connection_string"])

    def client(self, **options: Any) -> ServiceBusClient:
        settings = {"retry_total": 0} | options
        return PromptClient.from_connection_string(self.connection_string, **settings)


def eventually(holds: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    """Wait until `holds`, or fail."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to this in time"
        time.sleep(0.01)
