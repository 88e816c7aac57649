"""What counts as use of a link."""

import time
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusMessage

from tests.integration.servers import Emulator


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    folder = tmp_path_factory.mktemp("impatient")
    running = Emulator(folder, {"orders": {"LockDuration": "PT30S"}}, "--idle-detach", "1")
    running.start()
    yield running
    running.end()


def test_management_requests_keep_their_link_and_the_named_one(impatient: Emulator) -> None:
    with impatient.client() as client, client.get_queue_receiver("orders") as receiver:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("a"))
        for _ in range(8):
            receiver.peek_messages(1, sequence_number=1)
            time.sleep(0.35)
        (message,) = receiver.receive_messages(1, max_wait_time=2)
        receiver.complete_message(message)
