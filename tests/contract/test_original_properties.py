"""What others put onto a message, peeked while the message is locked: on its copies as it was."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage

from delivery.errors import DeliveryError, OutdatedError, TransitiveError
from devstack.stack import Announced
from services.amqp_properties import application_properties
from services.azure_access import service_bus_client
from services.processing.copies import postponed, set_aside
from services.processing.delivery import Delivery
from services.processing.management_thread import ManagementThread
from services.processing.original_properties import OriginalPropertiesService
from services.processing.posting import PostingService
from tests.builders import a_delivery, nowhere

QUEUE = "sbqnormal"
BODY = b'{"name":"M\xc3\xbcller"}\x00\xff'
GUID = uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")

#: What a sender gives to the SDK, and what then is on the wire. The SDK writes an int of Python as
#: an int, a float as a double, a datetime as a timestamp, bytes as a string.
SENT: dict[str, Any] = {
    "int": 7,
    "long": {"TYPE": "LONG", "VALUE": 7},
    "ulong": {"TYPE": "ULONG", "VALUE": 2**64 - 1},
    "uint": {"TYPE": "UINT", "VALUE": 2**32 - 1},
    "short": {"TYPE": "SHORT", "VALUE": -2},
    "bool": True,
    "moment": datetime(2026, 11, 30, 12, 0, 0, 123_000, tzinfo=UTC),
    "before 1970": {"TYPE": "TIMESTAMP", "VALUE": -62_135_596_800_000},
    "uuid": GUID,
    "bytes": {"TYPE": "BINARY", "VALUE": b"\x00\xff"},
    "float": {"TYPE": "FLOAT", "VALUE": 0.5},
    "double": 0.1,
    "string": "Müller",
    "symbol": {"TYPE": "SYMBOL", "VALUE": b"s"},
    "span": {
        "TYPE": "DESCRIBED",
        "VALUE": (
            {"TYPE": "SYMBOL", "VALUE": b"com.microsoft:timespan"},
            {"TYPE": "LONG", "VALUE": 36_000_000_000},
        ),
    },
}
ON_THE_WIRE: dict[str, Any] = {
    **SENT,
    "int": {"TYPE": "INT", "VALUE": 7},
    "bool": {"TYPE": "BOOL", "VALUE": True},
    "moment": {"TYPE": "TIMESTAMP", "VALUE": 1_796_040_000_123},
    "uuid": {"TYPE": "UUID", "VALUE": GUID},
    "double": {"TYPE": "DOUBLE", "VALUE": 0.1},
    "string": {"TYPE": "STRING", "VALUE": "Müller".encode()},
}
OURS = {"JobName": "customers-to-erp", "SourceKey": "D1"}


def a_thread(environ: dict[str, str]) -> ManagementThread:
    return ManagementThread("test", lambda: service_bus_client(environ, "BUS", retry_total=0))


class Bus:
    """The emulator, with what we have beside the host."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._client: ServiceBusClient = service_bus_client(environ, "BUS")
        self._receivers = {
            queue: self._client.get_queue_receiver(queue, socket_timeout=0.05)
            for queue in (QUEUE, "sbqtransitivenormal", "sbqignored")
        }
        self._sender = self._client.get_queue_sender(QUEUE, socket_timeout=0.05)
        self.management = a_thread(environ)
        self.originals = OriginalPropertiesService(self.management)
        self.posting = PostingService(lambda: service_bus_client(environ, "BUS", retry_total=0))

    def send(self, properties: dict[str, Any]) -> None:
        of_any_type: dict[Any, Any] = dict(properties)
        self._sender.send_messages(
            ServiceBusMessage(BODY, message_id="m-1", application_properties=of_any_type)
        )

    def receive(self, queue: str = QUEUE) -> ServiceBusReceivedMessage:
        [message] = self._receivers[queue].receive_messages(1, max_wait_time=5)
        return message

    def complete(self, message: ServiceBusReceivedMessage, queue: str = QUEUE) -> None:
        self._receivers[queue].complete_message(message)

    def peek(self, number: int | None, queue: str = QUEUE) -> bytes | None:
        assert number is not None
        return self.management.run(queue, lambda node: node.peek_encoded(number))

    def close(self) -> None:
        self.posting.close()
        self.management.close()
        for receiver in self._receivers.values():
            receiver.close()
        self._sender.close()
        self._client.close()


@pytest.fixture(scope="module")
def bus(service_bus: Announced) -> Iterator[Bus]:
    """Each test leaves its queues empty."""
    bus = Bus({"BUS": str(service_bus.facts()["connection_string"])})
    yield bus
    bus.close()


def as_the_host_tells_it(message: ServiceBusReceivedMessage) -> Delivery:
    """JSON has texts for what it has no type for."""
    told = {name: value if isinstance(value, int) else str(value) for name, value in SENT.items()}
    return a_delivery(
        body=b"".join(message.body),
        properties={**OURS, **told},
        sequence_number=message.sequence_number,
    )


@pytest.mark.integration
@pytest.mark.parametrize(
    ("queue", "error"),
    [
        (QUEUE, None),
        ("sbqtransitivenormal", TransitiveError("not yet")),
        ("sbqignored", OutdatedError("the target is newer")),
    ],
    ids=["scheduled", "transitive", "ignored"],
)
def test_sb4_a_copy_keeps_others_properties_with_value_and_type_and_the_body(
    bus: Bus, queue: str, error: DeliveryError | None
) -> None:
    bus.send({**OURS, **SENT})
    message = bus.receive()
    delivery = as_the_host_tells_it(message)
    typed = bus.originals.foreign(delivery)
    assert typed == ON_THE_WIRE, "ours are not among them"
    if error is None:
        copy = postponed(delivery, timedelta(milliseconds=50), datetime.now(UTC), typed)
    else:
        copy = set_aside(delivery, error, typed)
    bus.posting.post(queue, copy)
    bus.complete(message)

    arrived = bus.receive(queue)
    encoded = bus.peek(arrived.sequence_number, queue)
    bus.complete(arrived, queue)
    assert encoded is not None
    properties = application_properties(encoded)
    assert {name: properties[name] for name in SENT} == ON_THE_WIRE
    assert {name: properties[name]["VALUE"].decode() for name in OURS} == OURS
    assert b"".join(arrived.body) == BODY


@pytest.mark.integration
def test_a_peek_finds_a_locked_message_and_no_other_in_its_place(bus: Bus) -> None:
    bus.send({"n": 1})
    bus.send({"n": 2})
    first, second = bus.receive(), bus.receive()
    found = bus.peek(first.sequence_number)
    assert found is not None
    assert application_properties(found) == {"n": {"TYPE": "INT", "VALUE": 1}}
    bus.complete(first)
    assert bus.peek(first.sequence_number) is None, "the broker answers with the second"
    bus.complete(second)
    assert bus.peek(first.sequence_number) is None, "the broker answers that there is none"


@pytest.mark.integration
@pytest.mark.parametrize("number", ["gone", None])
def test_properties_that_cannot_be_had_are_left_to_the_host(
    bus: Bus, number: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    bus.send(SENT)
    message = bus.receive()
    bus.complete(message)
    gone = None if number is None else message.sequence_number
    delivery = a_delivery(properties={"secret": "hunter2"}, sequence_number=gone)
    assert bus.originals.foreign(delivery) == {}
    [line] = caplog.messages
    assert "its copy has no AMQP types" in line
    assert "hunter2" not in line


@pytest.mark.integration
def test_a_broker_that_is_away_costs_the_types_and_not_the_copy(
    unused_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    thread = a_thread(nowhere(unused_port))
    delivery = a_delivery(properties={"sent": "2026-11-30"}, sequence_number=7)
    typed = OriginalPropertiesService(thread).foreign(delivery)
    thread.close()
    copy = set_aside(delivery, TransitiveError("not yet"), typed)
    properties: dict[Any, Any] = copy.application_properties or {}
    assert properties["sent"] == "2026-11-30"
    [line] = [line for line in caplog.messages if "AMQP types" in line]
    assert "hunter2" not in line


def test_a_message_with_our_properties_only_costs_no_request() -> None:
    opened: list[str] = []

    def open_client() -> ServiceBusClient:
        opened.append("a client")
        raise AssertionError

    originals = OriginalPropertiesService(ManagementThread("test", open_client))
    properties = {**OURS, "ErrorMessage": "e", "CarriedAttempts": 3, "DeadLetterReason": "r"}
    assert originals.foreign(a_delivery(properties=properties, sequence_number=7)) == {}
    assert originals.foreign(a_delivery(properties={}, sequence_number=7)) == {}
    assert opened == []
