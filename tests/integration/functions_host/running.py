"""The real host and the real emulator as subprocesses, and what tests ask of them."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from devstack import ready

if TYPE_CHECKING:
    from email.message import Message

ROOT = Path(__file__).parents[3]
APPS = ROOT / "tests" / "apps"


def eventually[T](probe: Callable[[], T], seconds: float = 15) -> T:
    """Return the first true answer of `probe`."""
    end = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > end:
            message = f"not within {seconds} s"
            raise AssertionError(message)
        time.sleep(0.02)
    return answer


@dataclass
class Server:
    """A module of ours that announces itself by a ready file."""

    module: str
    arguments: list[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def facts(self) -> dict[str, Any]:
        return ready.read(self.folder / "ready") or {}

    def start(self, *more: str) -> Self:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "ready").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    self.module,
                    *self.arguments,
                    *("--ready-file", str(self.folder / "ready")),
                    *("--data", str(self.folder / "data")),
                    *more,
                ],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stderr=log,
            )
        eventually(self._facts_while_alive, 20)
        return self

    def _facts_while_alive(self) -> dict[str, Any] | None:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        return self.facts

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(30)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: "Message[str, str]"
    text: str


class Host(Server):
    """A running host; functions of its app write what they see to `record`."""

    @property
    def record(self) -> list[dict[str, Any]]:
        path = self.folder / "record"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def seen(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.record if entry["name"] == name]

    @property
    def keys(self) -> dict[str, Any]:
        keys: dict[str, Any] = json.loads((self.folder / "data" / "keys.json").read_text())
        return keys

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(  # noqa: S310 - our own server's address
            f"{self.facts['url']}{path}", data=body or None, method=method, headers=names
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - as above
                return Answer(answer.status, answer.headers, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read().decode())


def new_host(app: Path, folder: Path, **environment: str) -> Host:
    record = {"RECORD": str(folder / "record")}
    return Host("devstack.functions_host", [str(app)], folder, {**record, **environment})


@dataclass
class Bus:
    """The emulator with the queues of `tests/apps/queues`."""

    server: Server

    @property
    def connection(self) -> str:
        return str(self.server.facts["connection_string"])

    def send(self, queue: str, *bodies: bytes | str, **properties: Any) -> None:
        with (
            ServiceBusClient.from_connection_string(self.connection) as client,
            client.get_queue_sender(queue) as sender,
        ):
            sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])

    def bodies(self, queue: str, *, dead: bool = False) -> list[str]:
        """Peek at what is in the queue, locked or not, or in its dead-letter queue."""
        sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
        with (
            ServiceBusClient.from_connection_string(self.connection) as client,
            client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver,
        ):
            return [b"".join(m.body).decode() for m in receiver.peek_messages(100)]


def new_bus(folder: Path, queues: Mapping[str, Mapping[str, Any]], *more: str) -> Bus:
    entries = [{"Name": name, "Properties": dict(rules)} for name, rules in queues.items()]
    config = {"UserConfig": {"Namespaces": [{"Name": "ns", "Queues": entries}]}}
    folder.mkdir(exist_ok=True)
    (folder / "queues.json").write_text(json.dumps(config))
    arguments = ["--config", str(folder / "queues.json"), *more]
    key = {"SERVICE_BUS_EMULATOR_KEY": "dGVzdC1rZXktb2YtdGhlLWZ1bmN0aW9ucy1ob3N0"}
    return Bus(Server("devstack.service_bus", arguments, folder, key))


def write_app(folder: Path, code: str, files: Iterable[tuple[str, str]] = ()) -> Path:
    folder.mkdir()
    (folder / "function_app.py").write_text(code)
    for name, text in files:
        (folder / name).write_text(text)
    return folder
