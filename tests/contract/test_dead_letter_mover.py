"""What the mover shows of a real queue: every message, page by page, and none is touched."""

import os
import subprocess
import sys

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from devstack.processes import ROOT
from devstack.stack import QUEUES, emulator, run_folder
from services.azure_access import service_bus_client

pytestmark = pytest.mark.integration

MESSAGES = 600


def test_a_queue_and_its_dead_letters_are_shown_by_reason_and_left_as_they_are() -> None:
    with run_folder("test") as folder:
        server = emulator(folder, QUEUES)
        server.start()
        environ = {"SYNC_SERVICE_BUS": str(server.facts()["connection_string"])}
        try:
            _fill(environ)
            waiting = _run(environ, "sbqlow")
            assert f"{MESSAGES:7}  record <text> is refused" in waiting
            assert "orders" in waiting
            dead = _run(environ, "sbqlow", "--dead-letter")
            assert "1  somebody's words" in dead
            assert _run(environ, "sbqlow") == waiting
        finally:
            server.stop()


def _fill(environ: dict[str, str]) -> None:
    with (
        service_bus_client(environ) as client,
        client.get_queue_sender("sbqlow", socket_timeout=0.05) as sender,
        client.get_queue_receiver("sbqlow", socket_timeout=0.05) as receiver,
    ):
        sender.send_messages(ServiceBusMessage(b"x"))
        [message] = receiver.receive_messages(1, max_wait_time=5)
        receiver.dead_letter_message(message, "why", "somebody's words")
        for first in range(0, MESSAGES, 200):
            sender.send_messages(
                [
                    ServiceBusMessage(
                        b"x",
                        application_properties={
                            "JobName": "orders",
                            "ErrorMessage": f"record 'D{number}' is refused",
                        },
                    )
                    for number in range(first, first + 200)
                ]
            )
        with client.get_queue_receiver("sbqlow", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            assert len(dead.peek_messages(2)) == 1


def _run(environ: dict[str, str], *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "dead_letter_mover", *arguments],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout
