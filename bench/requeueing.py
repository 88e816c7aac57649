"""20,000 messages back into their queue: by the mover, both passes, and by a bare SDK loop.

Both are commands, and the time is the command's, from its start to its end.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from bench.rows import Row, compared
from devstack.processes import ROOT
from devstack.stack import QUEUES, emulator, run_folder
from models.job import Priority
from models.message_properties import ERROR_MESSAGE, ERROR_TYPE, ORIGINAL_QUEUE
from models.queue_message import JobActionType, QueueMessage
from services.azure_access import service_bus_client
from services.broker_limits import MESSAGES_PER_BATCH
from services.outgoing import OutgoingMessage

MESSAGES = 20_000
_ROUNDS = 5
_BAR = 0.8
_FROM, _TO = "sbqtransitivelow", "sbqlow"
_RULES = "rules: [{pattern: not there, action: Resubmit}]"

Environ = Mapping[str, str]


class Moved(NamedTuple):
    """What a run of the mover took."""

    seconds: float
    peak_kb: int


def measure() -> list[Row]:
    """Return messages a second of both sides."""
    with _scene() as (client, environ, rules):
        ours, other = [], []
        for number in range(1, _ROUNDS + 1):
            ours.append(_rate(client, lambda: _by_the_mover(environ, rules)))
            other.append(_rate(client, lambda: _by_a_bare_loop(environ)))
            print(f"requeueing {number}/{_ROUNDS}: mover {ours[-1]:.0f}/s, loop {other[-1]:.0f}/s")
    return [compared(f"requeueing {MESSAGES} messages / bare SDK loop", ours, other, _BAR)]


def move(count: int) -> Moved:
    """Have the mover move `count` messages on an emulator of their own."""
    with _scene() as (client, environ, rules):
        _fill(client, count)
        start = time.monotonic()
        peak_kb = _by_the_mover(environ, rules)
        return Moved(time.monotonic() - start, peak_kb)


@contextmanager
def _scene() -> Iterator[tuple[ServiceBusClient, Environ, Path]]:
    """Start an emulator, and return a client, what the commands need to know, and the rules."""
    with run_folder("bench") as folder, tempfile.TemporaryDirectory() as files:
        server = emulator(folder, QUEUES)
        server.start()
        rules = Path(files) / "rules.yaml"
        rules.write_text(_RULES, "utf-8")
        environ = {**os.environ, "SYNC_SERVICE_BUS": str(server.facts()["connection_string"])}
        try:
            with service_bus_client(environ) as client:
                yield client, environ, rules
        finally:
            server.stop()


def _rate(client: ServiceBusClient, side: Callable[[], object]) -> float:
    _fill(client, MESSAGES)
    start = time.monotonic()
    side()
    return MESSAGES / (time.monotonic() - start)


def _fill(client: ServiceBusClient, count: int) -> None:
    with client.get_queue_sender(_FROM) as sender:
        for first in range(0, count, MESSAGES_PER_BATCH):
            numbers = range(first, min(first + MESSAGES_PER_BATCH, count))
            sender.send_messages([_a_message(number) for number in numbers])


def _a_message(number: int) -> ServiceBusMessage:
    key = f"D{number:06}"
    fields = {
        "name": "Müller Maschinenbau GmbH & Co. KG",
        "street": "Königsallee 27",
        "city": "Düsseldorf",
        "credit_limit": "12345.67",
        "partner_since": "1955-02-03",
    }
    change = QueueMessage(
        "customers-to-erp",
        JobActionType.NEW_UPDATE,
        key,
        "2026-11-30T10:00:00.123456+00:00",
        {"partner_number": key},
        {**fields},
    )
    message = OutgoingMessage.of(change, Priority.LOW)
    return ServiceBusMessage(
        message.body,
        content_type="application/json",
        message_id=message.message_id,
        application_properties={
            "JobName": change.job_name,
            "SourceKey": key,
            ORIGINAL_QUEUE: _TO,
            ERROR_MESSAGE: f"record {key!r} refers to what is not there",
            ERROR_TYPE: "TransitiveError",
        },
    )


def _by_the_mover(environ: Environ, rules: Path) -> int:
    """Return the peak memory in kilobytes."""
    options = ("--rules", str(rules), "--apply")
    return _run(environ, "dead_letter_mover", _FROM, *options)


def _by_a_bare_loop(environ: Environ) -> int:
    return _run(environ, "bench.requeue_loop", _FROM, _TO, str(MESSAGES))


def _run(environ: Environ, module: str, *arguments: str) -> int:
    command = [sys.executable, "-m", "bench.memory", module, *arguments]
    run = subprocess.run(  # noqa: S603 - our own modules
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, check=False
    )
    if run.returncode:
        msg = f"{module} ended with {run.returncode}"
        raise RuntimeError(msg)
    return int(run.stdout)
