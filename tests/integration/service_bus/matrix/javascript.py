"""The JavaScript SDK: a Node program that does one step a line (`client.mjs`)."""

import json
import os
import select
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.integration.service_bus.matrix.clients import (
    Counts,
    Meaning,
    Outgoing,
    Place,
    Seen,
    ToldError,
)

_PROGRAM = Path(__file__).with_name("client.mjs")
_MEANINGS = {
    "MessageLockLost": Meaning.LOCK_LOST,
    "MessageSizeExceeded": Meaning.TOO_LARGE,
    "MessagingEntityNotFound": Meaning.NOT_FOUND,
    "ServiceCommunicationProblem": Meaning.CUT_OFF,
    "UnauthorizedAccess": Meaning.UNAUTHORIZED,
}
#: Longer than anything that the SDK does here.
_PATIENCE = 60


class JavaScript:
    """One Node process for all tests. It trusts the certificate of the emulator's Atom API."""

    name = "javascript"

    def __init__(self, certificate: str, log: Path) -> None:
        self._log = log
        self._one_at_a_time = threading.Lock()
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [shutil.which("node") or "node", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=os.environ | {"NODE_EXTRA_CA_CERTS": certificate},
            )

    def client(self, connection_string: str) -> "JavaScriptClient":
        number = self.ask("open", connection=connection_string)
        return JavaScriptClient(self, number)

    def counts(self, connection_string: str, queue: str) -> Counts:
        return Counts(**self.ask("counts", connection=connection_string, queue=queue))

    def queues(self, connection_string: str) -> list[str]:
        return list(self.ask("queues", connection=connection_string))

    def namespace(self, connection_string: str) -> str:
        return str(self.ask("namespace", connection=connection_string))

    def ask(self, command: str, **fields: Any) -> Any:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        with self._one_at_a_time:
            requests.write(json.dumps({"command": command, **fields}, default=_written) + "\n")
            requests.flush()
            ready, _, _ = select.select([answers], [], [], _PATIENCE)
            line = answers.readline() if ready else ""
        assert line, f"no answer to '{command}': {self._log.read_text('utf-8')}"
        answer = json.loads(line)
        if "error" in answer:
            told = answer["error"]
            meaning = _MEANINGS.get(told["code"], Meaning.OTHER)
            raise ToldError(meaning, f"{told['code']}: {told['text']}")
        return answer["value"]

    def end(self) -> None:
        self._process.communicate(timeout=_PATIENCE)
        assert self._process.returncode == 0, self._log.read_text("utf-8")


class JavaScriptClient:
    """Implements `Client`."""

    def __init__(self, program: JavaScript, number: int) -> None:
        self._program = program
        self._number = number

    def send(self, queue: str, message: Outgoing) -> None:
        self._ask("send", queue=queue, message=_fields(message))

    def send_all(self, queue: str, messages: Sequence[Outgoing]) -> None:
        self._ask("sendAll", queue=queue, messages=[_fields(message) for message in messages])

    def fill(self, queue: str, message: Outgoing, most: int) -> int:
        return int(self._ask("fill", queue=queue, message=_fields(message), most=most))

    def schedule(self, queue: str, messages: Sequence[Outgoing], due: datetime) -> list[int]:
        written = [_fields(message) for message in messages]
        return list(self._ask("schedule", queue=queue, messages=written, due=due))

    def cancel(self, queue: str, number: int) -> None:
        self._ask("cancel", queue=queue, number=number)

    def peek(self, place: Place, *, start: int = 1, count: int = 10) -> list[Seen]:
        found = self._ask("peek", **place._asdict(), start=start, count=count)
        return [_seen(fields) for fields in found]

    def receive(self, place: Place, *, seconds: float = 5) -> list[Seen]:
        found = self._ask("receive", **place._asdict(), seconds=seconds)
        return [_seen(fields) for fields in found]

    def receive_deferred(self, place: Place, number: int) -> Seen:
        return _seen(self._ask("receiveDeferred", **place._asdict(), number=number))

    def complete(self, message: Seen) -> None:
        self._ask("complete", handle=message.handle)

    def abandon(self, message: Seen, properties: Mapping[str, str | int] | None = None) -> None:
        self._ask("abandon", handle=message.handle, properties=properties)

    def defer(self, message: Seen) -> None:
        self._ask("defer", handle=message.handle)

    def dead_letter(
        self,
        message: Seen,
        *,
        reason: str | None = None,
        description: str | None = None,
        properties: Mapping[str, str | int] | None = None,
    ) -> None:
        why = {"reason": reason, "description": description, "properties": properties}
        self._ask("deadLetter", handle=message.handle, **why)

    def renew(self, message: Seen) -> datetime:
        return datetime.fromisoformat(self._ask("renew", handle=message.handle))

    def close(self) -> None:
        self._ask("close")

    def _ask(self, command: str, **fields: Any) -> Any:
        return self._program.ask(command, client=self._number, **fields)


def _written(value: object) -> str:
    assert isinstance(value, datetime)
    return value.isoformat()


def _fields(message: Outgoing) -> dict[str, Any]:
    """Name a message's fields as the SDK does, without those that are not set."""
    fields = {
        "body": message.body,
        "messageId": message.message_id,
        "subject": message.subject,
        "correlationId": message.correlation_id,
        "contentType": message.content_type,
        "replyTo": message.reply_to,
        "to": message.to,
        "partitionKey": message.partition_key,
        "timeToLive": message.seconds_to_live and message.seconds_to_live * 1000,
        "properties": dict(message.properties) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _seen(fields: dict[str, Any]) -> Seen:
    absent: dict[str, Any] = dict.fromkeys(Seen.__dataclass_fields__)
    times = {
        name: datetime.fromisoformat(fields[name])
        for name in ("enqueued", "locked_until")
        if fields.get(name)
    }
    return Seen(**(absent | fields | times))
