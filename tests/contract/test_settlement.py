"""The port `Settlement`: what a message looks like after we gave it back."""

import time
import uuid
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage

from devstack.stack import QUEUES, Announced, emulator, run_folder
from services.azure_access import service_bus_client
from services.processing.queue_items import Delivery
from services.processing.settlement import SettlementService

QUEUE = "sbqnormal"
PROPERTIES: dict[str, str | int] = {"ErrorMessage": "größer als erlaubt", "ErrorDeliveryCount": 1}


class Bus:
    """A queue of a running emulator, its receiver, and our settlement beside it."""

    def __init__(self, server: Announced) -> None:
        environ = {"BUS": str(server.facts()["connection_string"])}
        self._client: ServiceBusClient = service_bus_client(environ, "BUS")
        self.receiver = self._client.get_queue_receiver(QUEUE)
        self.settlement = SettlementService(
            lambda: service_bus_client(environ, "BUS", retry_total=0)
        )

    def send(self) -> None:
        with self._client.get_queue_sender(QUEUE) as sender:
            sender.send_messages(
                ServiceBusMessage(b"body", application_properties={"JobName": "a", "Kept": 7})
            )

    def receive(self) -> ServiceBusReceivedMessage:
        [message] = self.receiver.receive_messages(1, max_wait_time=5)
        return message

    def close(self) -> None:
        self.settlement.close()
        self.receiver.close()
        self._client.close()


def _delivery(message: ServiceBusReceivedMessage) -> Delivery:
    token = uuid.UUID(str(message.lock_token))
    return Delivery(QUEUE, b"body", token, (message.delivery_count or 0) + 1)


@pytest.fixture
def bus(service_bus: Announced) -> Iterator[Bus]:
    bus = Bus(service_bus)
    yield bus
    bus.close()


@pytest.mark.integration
class TestOnTheEmulator:
    def test_an_abandoned_message_comes_back_with_the_properties_added(self, bus: Bus) -> None:
        bus.send()
        bus.settlement.abandon(_delivery(bus.receive()), PROPERTIES)
        again = bus.receive()
        bus.receiver.complete_message(again)
        assert again.delivery_count == 1
        assert again.application_properties == {
            b"JobName": b"a",
            b"Kept": 7,
            b"ErrorMessage": "größer als erlaubt".encode(),
            b"ErrorDeliveryCount": 1,
        }

    def test_a_lost_lock_is_not_an_error(self, bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
        bus.send()
        message = bus.receive()
        delivery = _delivery(message)
        bus.receiver.complete_message(message)
        bus.settlement.abandon(delivery, PROPERTIES)
        assert "the lock was lost" in caplog.text

    def test_an_unreachable_broker_is_logged_and_not_raised(
        self, caplog: pytest.LogCaptureFixture, unused_port: int
    ) -> None:
        environ = {
            "BUS": f"Endpoint=sb://127.0.0.1:{unused_port};SharedAccessKeyName=n;"
            "SharedAccessKey=hunter2;UseDevelopmentEmulator=true;"
        }
        settlement = SettlementService(lambda: service_bus_client(environ, "BUS", retry_total=0))
        settlement.abandon(Delivery(QUEUE, b"", uuid.uuid4(), 1), PROPERTIES)
        settlement.close()
        assert "goes back without error properties" in caplog.text
        assert "hunter2" not in caplog.text


def test_a_client_that_cannot_even_be_made_is_logged_and_not_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settlement = SettlementService(lambda: service_bus_client({}, "BUS", retry_total=0))
    settlement.abandon(Delivery(QUEUE, b"", uuid.uuid4(), 1), PROPERTIES)
    settlement.close()
    assert "the app setting BUS is missing" in caplog.text


@pytest.mark.integration
def test_a_link_that_was_detached_while_idle_is_opened_again() -> None:
    with run_folder("test") as folder:
        server = emulator(folder, QUEUES, "--idle-detach", "1")
        server.start()
        try:
            bus = Bus(server)
            bus.send()
            bus.settlement.abandon(_delivery(bus.receive()), PROPERTIES)
            message = bus.receive()
            time.sleep(2.5)  # the idle time has to pass at the broker
            bus.settlement.abandon(_delivery(message), {"ErrorMessage": "second"})
            bus.close()
            bus = Bus(server)
            again = bus.receive()
            bus.close()
        finally:
            server.stop()
    assert again.application_properties is not None
    assert again.application_properties[b"ErrorMessage"] == b"second"
