"""Idle links are detached, and clients find their way back."""

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError

from tests.integration.disasters import wait_for
from tests.integration.servers import Emulator


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    folder = tmp_path_factory.mktemp("impatient")
    running = Emulator(folder, {"orders": {"LockDuration": "PT30S"}}, "--idle-detach", "1")
    running.start()
    yield running
    running.end()


def test_an_idle_receiver_is_detached_and_receives_again(impatient: Emulator) -> None:
    with (
        impatient.client() as client,
        client.get_queue_receiver("orders", max_wait_time=6) as receiver,
    ):
        assert receiver.receive_messages(1, max_wait_time=0.3) == []
        time.sleep(2.2)
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("late"))
        received: list[str] = []

        def receives() -> bool:
            # The SDK tells of the detached link once, and attaches anew when asked again.
            with suppress(ServiceBusConnectionError):
                for message in receiver.receive_messages(1, max_wait_time=2):
                    receiver.complete_message(message)
                    received.append(str(message))
            return bool(received)

        wait_for(receives)
        assert received == ["late"]


def test_an_idle_management_link_fails_once_and_then_works(impatient: Emulator) -> None:
    with impatient.client() as client, client.get_queue_receiver("orders") as receiver:
        receiver.peek_messages(1)
        time.sleep(2.2)
        with pytest.raises(Exception, match=r"Management Operation|detached|closed|unknown"):
            receiver.peek_messages(1)
        assert receiver.peek_messages(1) == []


def test_management_requests_keep_their_link_and_the_named_one(impatient: Emulator) -> None:
    with impatient.client() as client, client.get_queue_receiver("orders") as receiver:
        for _ in range(8):
            receiver.peek_messages(1)
            time.sleep(0.35)
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("a"))
        (message,) = receiver.receive_messages(1, max_wait_time=2)
        receiver.complete_message(message)
