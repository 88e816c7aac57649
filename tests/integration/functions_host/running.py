"""The real host and the real emulator, and what tests ask of them."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from devstack.processes import ROOT
from tests.integration.servers import Emulator, Running

if TYPE_CHECKING:
    from email.message import Message

APPS = ROOT / "tests" / "apps"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: "Message[str, str]"
    text: str


class Host(Running):
    """A host; functions of its app write what they see to `record`."""

    def __init__(self, app: Path, folder: Path, *options: str, **environment: str) -> None:
        self._record = folder / "record"
        self.keys_file = folder / "functions_host" / "keys.json"
        super().__init__(
            "functions_host",
            folder,
            [str(app), *options],
            **{"RECORD": str(self._record), **environment},
        )

    def record(self) -> list[dict[str, Any]]:
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        return [json.loads(line) for line in lines]

    def seen(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.record() if entry["name"] == name]

    def keys(self) -> dict[str, Any]:
        keys: dict[str, Any] = json.loads(self.keys_file.read_text())
        return keys

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(  # noqa: S310 - our own server's address
            f"{self.facts()['url']}{path}", data=body or None, method=method, headers=names
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - as above
                return Answer(answer.status, answer.headers, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read().decode())


class Bus(Emulator):
    """The emulator with the queues of `tests/apps/queues`."""

    def send(self, queue: str, *bodies: bytes | str, **properties: Any) -> None:
        with self.client() as client, client.get_queue_sender(queue) as sender:
            sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])

    def bodies(self, queue: str, *, dead: bool = False) -> list[str]:
        """Peek at what is in the queue, locked or not, or in its dead-letter queue."""
        sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
        with (
            self.client() as client,
            client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver,
        ):
            return [b"".join(m.body).decode() for m in receiver.peek_messages(100)]


def write_app(folder: Path, code: str, files: Iterable[tuple[str, str]] = ()) -> Path:
    folder.mkdir()
    (folder / "function_app.py").write_text(code)
    for name, text in files:
        (folder / name).write_text(text)
    return folder
