"""What was accepted is there after a kill; what was settled is not."""

import resource
import signal
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus._pyamqp.error import AMQPException
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError

from devstack.disasters import wait_for
from tests.integration.servers import Emulator

QUEUE: dict[str, dict[str, object]] = {"orders": {"LockDuration": "PT30S", "MaxDeliveryCount": 5}}
Start = Callable[..., Emulator]

#: The SDK leaves its sockets open when the other side dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def texts(client: ServiceBusClient, queue: str = "orders") -> list[str]:
    """Take everything out of the queue."""
    found: list[str] = []
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        while messages := receiver.receive_messages(500, max_wait_time=0.5):
            found += map(str, messages)
    return found


class Worker(threading.Thread):
    """Does one thing after another until the emulator is gone; remembers what was acknowledged."""

    def __init__(self, emulator: Emulator, name: str) -> None:
        super().__init__(name=name)
        self._emulator = emulator
        self.acknowledged: list[str] = []
        self.unsure: list[str] = []

    def run(self) -> None:
        try:
            with self._emulator.client() as client:
                self.work(client)
        except (ServiceBusError, AMQPException, OSError, ValueError, AttributeError):
            return  # the emulator was killed, in whatever the SDK was doing

    def work(self, client: ServiceBusClient) -> None:
        raise NotImplementedError


class SendingWorker(Worker):
    def work(self, client: ServiceBusClient) -> None:
        with client.get_queue_sender("orders") as sender:
            for number in range(100_000):
                batch = [f"{self.name}-{number}-{i}" for i in range(5)]
                sender.send_messages([ServiceBusMessage(text) for text in batch])
                self.acknowledged += batch


class CompletingWorker(Worker):
    def work(self, client: ServiceBusClient) -> None:
        with client.get_queue_receiver("orders", prefetch_count=20) as receiver:
            while True:
                for message in receiver.receive_messages(10, max_wait_time=1):
                    self.unsure = [str(message)]
                    receiver.complete_message(message)
                    self.acknowledged.append(str(message))


@pytest.mark.parametrize("after", [20, 400])
def test_a_kill_loses_nothing_accepted_and_revives_nothing_completed(
    started: Start, after: int
) -> None:
    emulator = started(QUEUE)
    senders = [SendingWorker(emulator, f"s{number}") for number in range(3)]
    completers = [CompletingWorker(emulator, f"c{number}") for number in range(2)]
    workers: list[Worker] = [*senders, *completers]
    for worker in workers:
        worker.start()
    wait_for(lambda: sum(len(c.acknowledged) for c in completers) > after)
    emulator.end(signal.SIGKILL)
    for worker in workers:
        worker.join(30)
    emulator.start()
    with emulator.client() as client:
        left = texts(client)
    sent = {text for worker in senders for text in worker.acknowledged}
    completed = {text for worker in completers for text in worker.acknowledged}
    unsure = {text for worker in completers for text in worker.unsure}
    assert len(left) == len(set(left)), "a message is there twice"
    assert sent - completed - unsure <= set(left), "an accepted message is lost"
    assert not completed & set(left), "a completed message is back"


def test_every_state_survives_and_locks_do_not(started: Start) -> None:
    emulator = started(QUEUE)
    with emulator.client() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(
            [ServiceBusMessage(text) for text in ("dead", "deferred", "abandoned")]
        )
        (number,) = sender.schedule_messages(
            [ServiceBusMessage("later")], datetime.now(UTC) + timedelta(seconds=3600)
        )
        receiver = client.get_queue_receiver("orders")
        dead, deferred, abandoned = (receiver.receive_messages(1)[0] for _ in range(3))
        receiver.dead_letter_message(dead, reason="why")
        receiver.defer_message(deferred)
        receiver.abandon_message(abandoned)
        (locked,) = receiver.receive_messages(1)
        emulator.end(signal.SIGKILL)
    emulator.start()
    with emulator.client() as client, client.get_queue_receiver("orders") as receiver:
        with pytest.raises(MessageLockLostError):
            receiver._settle_message_via_mgmt_link("completed", [locked.lock_token])  # type: ignore[list-item] # noqa: SLF001 - the token is of another connection
        (again,) = receiver.receive_messages(1)
        assert (str(again), again.delivery_count) == ("abandoned", 1)
        assert deferred.sequence_number is not None
        assert [str(m) for m in receiver.receive_deferred_messages(deferred.sequence_number)] == [
            "deferred"
        ]
        with client.get_queue_receiver(
            "orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as letters:
            (letter,) = letters.receive_messages(1)
            assert (str(letter), letter.dead_letter_reason) == ("dead", "why")
        with client.get_queue_sender("orders") as sender:
            sender.cancel_scheduled_messages(number)
            (following,) = sender.schedule_messages(
                [ServiceBusMessage("new")], datetime.now(UTC) + timedelta(seconds=3600)
            )
            assert following == number + 1


def send_until_refused(client: ServiceBusClient, accepted: list[str]) -> None:
    sender = client.get_queue_sender("orders")
    for number in range(100):
        text = f"{number}-" + "x" * 50_000
        sender.send_messages(ServiceBusMessage(text))
        accepted.append(text)


def test_a_full_disk_acknowledges_nothing_and_says_so(started: Start) -> None:
    emulator = started(QUEUE)
    # Every file of the process may grow to this size and no further.
    resource.prlimit(int(emulator.facts()["pid"]), resource.RLIMIT_FSIZE, (600_000, 600_000))
    accepted: list[str] = []
    with emulator.client() as client, pytest.raises(ServiceBusError):
        send_until_refused(client, accepted)
    assert emulator.wait_for_end() == 1
    assert "could not be kept" in emulator.log_text()
    emulator.start()
    with emulator.client() as client:
        found = texts(client)
    assert accepted
    assert found[: len(accepted)] == accepted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_an_orderly_way(started: Start, number: signal.Signals) -> None:
    emulator = started(QUEUE)
    with emulator.client() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("kept"))
        assert emulator.end(number) == 0
    emulator.start()
    with emulator.client() as client:
        assert texts(client) == ["kept"]
    assert "Traceback" not in emulator.log_text()


def refused(emulator: Emulator, *options: str) -> str:
    command = [*emulator.command(), *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


def test_a_second_emulator_on_the_same_data_or_port_is_refused(
    started: Start, tmp_path: Path
) -> None:
    emulator = started(QUEUE)
    before = emulator.facts()
    assert "in use by another emulator" in refused(emulator, "--port", "0")
    assert emulator.facts() == before
    elsewhere = ["--data", str(tmp_path / "data"), "--ready-file", str(tmp_path / "ready")]
    assert "cannot listen on 127.0.0.1" in refused(emulator, *elsewhere)
    with emulator.client() as client:
        assert texts(client) == []


def test_neither_payloads_nor_keys_are_logged(started: Start) -> None:
    emulator = started(QUEUE)
    with emulator.client() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("personal", application_properties={"p": "private"}))
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("personal" * 50_000))
    emulator.end()
    for secret in ("personal", "private", "a-key-for-tests"):
        assert secret not in emulator.log_text()
