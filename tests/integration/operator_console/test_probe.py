"""The shipped command against the emulator, over the real wire."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from delivery.errors import DeliveryError
from devstack.processes import ROOT
from operator_console.probe.assumptions import ASSUMPTIONS
from operator_console.probe.service_bus import open_queue
from tests.builders import nowhere
from tests.integration.servers import KEY, Emulator
from tests.silence import silence

pytestmark = pytest.mark.integration

#: Longer than any wait but the gap, so that no link is detached on the way.
IDLE_DETACH, GAP = "4", "5"

AS_OURS: dict[str, object] = {
    "LockDuration": "PT2S",
    "MaxDeliveryCount": 10,
    "DefaultMessageTimeToLive": "P14D",
    "DeadLetteringOnMessageExpiration": True,
}
QUEUES = {
    "probe": AS_OURS,
    "interrupted": AS_OURS,
    "full": AS_OURS,
    "wrong": AS_OURS
    | {
        "RequiresDuplicateDetection": True,
        "DuplicateDetectionHistoryTimeWindow": "PT1M",
        "DefaultMessageTimeToLive": "P1D",
        "MaxDeliveryCount": 6,
    },
}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    shipped = json.loads((ROOT / "servicebus.json").read_bytes())
    [namespace] = shipped["UserConfig"]["Namespaces"]
    ours = {queue["Name"]: queue["Properties"] for queue in namespace["Queues"]}
    folder = tmp_path_factory.mktemp("probe")
    running = Emulator(folder, ours | QUEUES, "--idle-detach", IDLE_DETACH)
    running.start()
    yield running
    running.end()


class Operator:
    """Works in an empty folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._settings = settings

    @property
    def environment(self) -> dict[str, str]:
        ours = {name: text for name, text in os.environ.items() if not name.startswith("SYNC_")}
        return {**ours, "PYTHONPATH": str(ROOT), **self._settings}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "operator_console", "probe-azure", *arguments],
            cwd=self._folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=240)
        assert "Traceback" not in err
        assert KEY not in out + err
        return process.returncode, out, err


def an_operator(folder: Path, emulator: Emulator, **changes: str) -> Operator:
    facts: dict[str, Any] = emulator.facts()
    settings = {
        "SYNC_SERVICE_BUS": facts["connection_string"],
        "SYNC_SERVICE_BUS_ADMINISTRATION": facts["admin_connection_string"],
        "SYNC_SERVICE_BUS_ADMINISTRATION_CERTIFICATE": facts["certificate"],
    }
    return Operator(folder, **(settings | changes))


def left(emulator: Emulator, queue: str) -> list[str | None]:
    """Return the ids of all messages in the queue and among its dead letters."""
    found = []
    with emulator.client() as client:
        for place in (None, ServiceBusSubQueue.DEAD_LETTER):
            with client.get_queue_receiver(queue, sub_queue=place) as receiver:
                found += [message.message_id for message in receiver.peek_messages(500)]
    return found


def test_every_assumption_holds_on_the_emulator_and_nothing_is_left(
    tmp_path: Path, emulator: Emulator
) -> None:
    status, out, err = an_operator(tmp_path, emulator).run("probe", "--idle", GAP, "--json")
    findings = {each["id"]: each for each in json.loads(out)["assumptions"]}
    assert {n: f["seen"] for n, f in findings.items() if f["verdict"] != "holds"} == {}
    assert list(findings) == [assumption.id for assumption in ASSUMPTIONS]
    assert "failed once and then worked" in findings["links-come-back"]["seen"]
    assert status == 0, err
    assert left(emulator, "probe") == []


def test_a_queue_that_was_made_otherwise_is_found_out(tmp_path: Path, emulator: Emulator) -> None:
    chosen = ("this-queue-is-like-ours", "same-id-arrives-twice", "attempts-end")
    arguments = [text for name in chosen for text in ("--only", name)]
    status, out, _ = an_operator(tmp_path, emulator).run("wrong", *arguments)
    assert status == 1
    assert "does not hold: this-queue-is-like-ours\n" in out
    assert "MaxDeliveryCount is 6, not 10" in out
    assert "does not hold: same-id-arrives-twice\n" in out
    assert "after 6 failed deliveries it was a dead letter" in out
    assert left(emulator, "wrong") == []


def test_a_run_that_is_stopped_leaves_nothing(tmp_path: Path, emulator: Emulator) -> None:
    # Without a place to administrate: the lock is measured.
    facts = emulator.facts()
    operator = Operator(tmp_path, SYNC_SERVICE_BUS=str(facts["connection_string"]))
    chosen = ["--only", "counts-are-right", "--only", "links-come-back", "--idle", "3600"]
    with operator.start("interrupted", *chosen) as process:
        assert process.stdout is not None
        # The first finding is there: the gap begins, with a message of ours in the queue.
        assert process.stdout.readline() == "not tested: counts-are-right\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stopped by a signal" in err
    assert "not removed" not in err
    assert "not tested: links-come-back" in out
    assert left(emulator, "interrupted") == []


def test_a_queue_that_holds_a_message_is_refused_and_not_touched(
    tmp_path: Path, emulator: Emulator
) -> None:
    with emulator.client() as client, client.get_queue_sender("full") as sender:
        sender.send_messages(ServiceBusMessage(b"an order", message_id="an-order"))
    status, out, err = an_operator(tmp_path, emulator).run("full")
    assert (status, out) == (1, "")
    assert "Error: the queue of full is not empty (a message, number 1)" in err
    assert left(emulator, "full") == ["an-order"]


def failure(
    settings: dict[str, str], name: str = "probe", patience: timedelta = timedelta(seconds=30)
) -> str:
    with (
        pytest.raises(DeliveryError) as info,
        open_queue(settings, name, patience),
    ):
        pytest.fail("it was opened")
    return str(info.value)


def test_a_wrong_key_is_one_sentence(emulator: Emulator) -> None:
    wrong = emulator.connection_string.replace(KEY, "hunter2")
    text = failure({"SYNC_SERVICE_BUS": wrong})
    assert "refuses the credentials; check the key in SYNC_SERVICE_BUS" in text
    assert "hunter2" not in text


def test_an_unknown_queue_is_one_sentence(emulator: Emulator) -> None:
    text = failure({"SYNC_SERVICE_BUS": emulator.connection_string}, "nowhere")
    assert text == "the namespace has no queue 'nowhere'; make it, or correct the name"


def test_without_a_broker_it_is_one_sentence(unused_port: int) -> None:
    text = failure({"SYNC_SERVICE_BUS": nowhere(unused_port)["BUS"]})
    assert "the broker does not answer" in text
    assert "check the address in SYNC_SERVICE_BUS, the network" in text
    assert "hunter2" not in text


def test_a_broker_that_never_answers_is_given_up() -> None:
    with silence() as port:
        settings = {"SYNC_SERVICE_BUS": nowhere(port)["BUS"]}
        text = failure(settings, patience=timedelta(seconds=1))
    assert "the broker does not answer" in text
