"""The mover as a command, on the emulator: what is promised holds wherever it is cut off."""

import json
import os
import pty
import random
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from dead_letter_mover.broker import ServiceBusBroker
from dead_letter_mover.letters import Letter
from devstack.processes import ROOT
from devstack.stack import emulator, run_folder
from services.amqp_properties import application_properties
from services.azure_access import service_bus_client
from tests.builders import a_queues_file
from tests.contract.test_original_properties import BODY, ON_THE_WIRE, SENT
from tests.encoded_messages import a_body

pytestmark = pytest.mark.acceptance

LOCK_SECONDS = 3
RULES = "rules: [{pattern: refused, action: Resubmit}, {unrecorded: true, action: None}]"
SKIPPING = "rules: [{pattern: poison, action: Skip}, {pattern: refused, action: Resubmit}]"


@dataclass
class Bus:
    """The emulator, the command's environment, and a folder for its files."""

    client: ServiceBusClient
    environ: dict[str, str]
    folder: Path

    def rules(self, text: str = RULES) -> str:
        path = self.folder / "rules.yaml"
        path.write_text(text, "utf-8")
        return str(path)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "dead_letter_mover", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.shell(shlex.join(self.command(*arguments)))

    def shell(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=ROOT,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def send(self, queue: str, messages: Sequence[ServiceBusMessage]) -> None:
        with self.client.get_queue_sender(queue, socket_timeout=0.05) as sender:
            for first in range(0, len(messages), 200):
                sender.send_messages(list(messages[first : first + 200]))

    def bury(self, queue: str, count: int) -> None:
        """Make dead letters of what is in the queue, with words of the broker's own."""
        with self.client.get_queue_receiver(queue, socket_timeout=0.05) as receiver:
            for message in receiver.receive_messages(count, max_wait_time=5):
                receiver.dead_letter_message(message, "MaxDeliveryCountExceeded", "refused: many")

    def letters(self, queue: str, *, dead: bool = False) -> list[Letter]:
        return list(ServiceBusBroker(self.client, queue, dead_letters=dead).letters())

    def clear(self) -> None:
        for queue in ("sbqlow", "sbqtransitivelow"):
            for sub_queue in (None, ServiceBusSubQueue.DEAD_LETTER):
                dead = sub_queue is not None
                with self.client.get_queue_receiver(
                    queue, sub_queue=sub_queue, socket_timeout=0.05
                ) as receiver:
                    while self.letters(queue, dead=dead):
                        for message in receiver.receive_messages(1_000, max_wait_time=1):
                            receiver.complete_message(message)


@pytest.fixture(scope="module")
def _emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    folder = tmp_path_factory.mktemp("mover")
    queues = a_queues_file(folder, LockDuration=f"PT{LOCK_SECONDS}S")
    with run_folder("test") as run:
        server = emulator(run, queues)
        server.start()
        settings = {"SYNC_SERVICE_BUS": str(server.facts()["connection_string"])}
        try:
            with service_bus_client(settings) as client:
                yield Bus(client, {**os.environ, **settings}, folder)
        finally:
            server.stop()


@pytest.fixture
def bus(_emulator: Bus, tmp_path: Path) -> Iterator[Bus]:
    yield Bus(_emulator.client, _emulator.environ, tmp_path)
    _emulator.clear()


def a_message(number: int, error: str | None = "refused", **changes: Any) -> ServiceBusMessage:
    key = changes.pop("key", f"D{number:05}")
    properties = {"JobName": "orders", "SourceKey": key, "ErrorMessage": error}
    tracker = f"2026-11-30T10:{number // 60 % 60:02}:{number % 60:02}Z"
    return ServiceBusMessage(
        a_body(key, tracker, **changes),
        message_id=f"m-{number}",
        application_properties={n: v for n, v in properties.items() if v is not None},
    )


def keys(letters: Sequence[Letter]) -> Counter[str]:
    return Counter(letter.source_key for letter in letters)


def test_a_queue_and_its_dead_letters_are_shown_by_reason_and_left_as_they_are(bus: Bus) -> None:
    bus.send("sbqlow", [a_message(1, None)])
    bus.bury("sbqlow", 1)
    bus.send("sbqlow", [a_message(n, f"record 'D{n}' is refused") for n in range(600)])
    waiting = bus.run("sbqlow")
    assert waiting.stdout.startswith(f"{600:7}  record <text> is refused\n")
    assert (
        "      1  refused: many"
        in bus.run("sbqlow", "--dead-letter", "--rules", bus.rules()).stdout
    )
    assert bus.run("sbqlow").stdout == waiting.stdout


def test_sb4_only_error_properties_go_and_the_others_keep_value_and_type(bus: Bus) -> None:
    errors = {
        "ErrorMessage": "refused",
        "ErrorDeliveryCount": 10,
        "OriginalQueue": "sbqlow",
        "CarriedAttempts": 3,
    }
    ours = {"JobName": "orders", "SourceKey": "D1"}
    of_any_type: dict[Any, Any] = {**SENT, **errors, **ours, "ErrorCode": "somebody else's"}
    message = ServiceBusMessage(
        BODY, message_id="m-1", subject="s", correlation_id="c", application_properties=of_any_type
    )
    bus.send("sbqlow", [message])
    bus.bury("sbqlow", 1)
    assert bus.run("sbqlow", "--dead-letter", "--rules", bus.rules(), "--apply").returncode == 0
    [letter] = bus.letters("sbqlow")
    text = {name: {"TYPE": "STRING", "VALUE": value.encode()} for name, value in ours.items()}
    assert application_properties(letter.encoded) == {
        **ON_THE_WIRE,
        **text,
        "ErrorCode": {"TYPE": "STRING", "VALUE": b"somebody else's"},
        "PreviousMessageId": {"TYPE": "STRING", "VALUE": b"m-1"},
    }
    assert letter.body == BODY
    [received] = bus.client.get_queue_receiver("sbqlow").peek_messages(1)
    assert (received.subject, received.correlation_id) == ("s", "c")
    assert received.message_id == letter.message_id != "m-1"


def test_killed_again_and_again_it_loses_nothing_and_finishes(bus: Bus) -> None:
    """Every change ends in its queue or in the archive; only what was in flight comes twice."""
    choose = random.Random(5)  # noqa: S311 - not a secret
    messages = [
        *(a_message(n) for n in range(1_500)),
        *(a_message(n, "poison") for n in range(1_500, 1_600)),
        *(a_message(n, key=f"D{n - 2_000:05}") for n in range(2_000, 2_100)),
        *(a_message(n, None) for n in range(3_000, 3_010)),
    ]
    bus.send("sbqtransitivelow", messages)
    archive = bus.folder / "archive.jsonl"
    arguments = (
        "sbqtransitivelow",
        "--rules",
        bus.rules(SKIPPING),
        "--apply",
        "--archive",
        str(archive),
    )
    kills = 0
    while True:
        process = subprocess.Popen(
            bus.command(*arguments), cwd=ROOT, env=bus.environ, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = choose.randint(50, 900)
        read = [line for line, _ in zip(process.stdout, range(lines), strict=False)]
        if len(read) < lines:
            break
        process.kill()
        process.stdout.close()
        process.wait()
        kills += 1
        time.sleep(LOCK_SECONDS + 0.2)
    process.stdout.close()
    assert process.wait() == 0
    assert kills > 1
    gone = [json.loads(line) for line in archive.read_text().splitlines() if line.endswith("}")]
    skipped = {line["sourceKey"] for line in gone if line["action"] == "skipped"}
    assert skipped == {f"D{n:05}" for n in range(1_500, 1_600)}
    back = bus.letters("sbqlow")
    assert keys(back).keys() == {f"D{n:05}" for n in range(1_500)}
    assert len(back) - 1_500 <= 200 * kills
    for letter in back:
        number = int(letter.source_key[1:])
        newest = 2_000 + number if number < 100 else number
        assert letter.body == b"".join(a_message(newest, key=letter.source_key).body)
    assert keys(bus.letters("sbqtransitivelow")).keys() == {f"D{n:05}" for n in range(3_000, 3_010)}


def test_a_reader_that_goes_away_stops_it_and_nothing_is_lost(bus: Bus) -> None:
    bus.send("sbqtransitivelow", [a_message(n) for n in range(600)])
    process = subprocess.Popen(
        bus.command("sbqtransitivelow", "--rules", bus.rules(), "--apply"),
        cwd=ROOT,
        env=bus.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"Traceback" not in errors
    left = keys(bus.letters("sbqlow") + bus.letters("sbqtransitivelow"))
    assert left.keys() == {f"D{n:05}" for n in range(600)}


def test_an_archive_without_room_keeps_the_messages_in_their_queue(bus: Bus) -> None:
    bus.send("sbqtransitivelow", [a_message(n, "poison") for n in range(10)])
    archive = bus.folder / "archive.jsonl"
    arguments = ("sbqtransitivelow", "--rules", bus.rules(SKIPPING), "--apply")
    command = shlex.join(bus.command(*arguments, "--archive", str(archive)))
    result = bus.shell(f"ulimit -f 1; exec {command}")
    assert result.returncode == 1
    assert f"{archive}: File too large; nothing of this batch was removed" in result.stderr
    assert len(bus.letters("sbqtransitivelow")) == 10


def test_a_rate_is_kept(bus: Bus) -> None:
    bus.send("sbqtransitivelow", [a_message(n) for n in range(60)])
    arguments = ("sbqtransitivelow", "--rules", bus.rules(), "--apply", "--json", "--rate", "20")
    documents = [json.loads(line) for line in bus.run(*arguments).stdout.splitlines()]
    moments = [line["at"] for line in documents if line["kind"] == "message"]
    assert len(moments) == 60
    assert len({moment[:19] for moment in moments}) >= 3


def test_a_terminal_shows_progress_and_every_audit_line(bus: Bus) -> None:
    bus.send("sbqtransitivelow", [a_message(n) for n in range(300)])
    shown = bytearray()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 65_536)
        shown.extend(data)
        return data

    command = bus.command("sbqtransitivelow", "--rules", bus.rules(), "--apply")
    saved = dict(os.environ)
    os.environ.update(bus.environ, TERM="xterm-256color", COLUMNS="200")
    try:
        status = _on_a_terminal(command, read)
    finally:
        os.environ.clear()
        os.environ.update(saved)
    text = shown.decode()
    assert status == 0, text
    assert text.count("  resubmitted  orders  ") == 300
    assert "300/300" in text
    assert "300 resubmitted" in text


def _on_a_terminal(command: list[str], read: Any) -> int:
    output = os.dup(1)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 1)
        return os.waitstatus_to_exitcode(pty.spawn(command, read))
    finally:
        os.dup2(output, 1)
        os.close(output)
        os.close(sink)
