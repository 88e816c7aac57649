"""Sending with the real SDK: single, batch, scheduled, and what is too large."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import ServiceBusError


def bodies(receiver: ServiceBusReceiver, count: int) -> list[str]:
    received: list[str] = []
    while len(received) < count:
        messages = receiver.receive_messages(count - len(received), max_wait_time=2)
        assert messages, f"only {received} came"
        for message in messages:
            receiver.complete_message(message)
            received.append(str(message))
    return received


def test_a_null_property_hangs_nothing(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    sender.send_messages(ServiceBusMessage("a", application_properties={"none": None}))  # type: ignore[dict-item] # SB11: callers do it
    (message,) = receiver.receive_messages(1)
    assert dict(message.application_properties or {}) == {b"none": None}
    receiver.complete_message(message)


def test_value_and_sequence_bodies_pass(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    sender.send_messages(AmqpAnnotatedMessage(value_body={"a": 1}))
    sender.send_messages(AmqpAnnotatedMessage(sequence_body=[["a", 1]]))
    sender.send_messages(AmqpAnnotatedMessage(data_body=[b"one", b"two"]))
    received: list[str] = []
    while len(received) < 3:
        for message in receiver.receive_messages(3):
            received.append(message.body_type.value)
            receiver.complete_message(message)
    assert received == ["value", "sequence", "data"]


def test_a_message_of_the_largest_size_passes(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    body = "x" * (256 * 1024 - 200)
    sender.send_messages(ServiceBusMessage(body))
    (message,) = receiver.receive_messages(1)
    assert str(message) == body
    receiver.complete_message(message)


@pytest.mark.parametrize(
    "properties",
    [{"one": "x" * 33_000}, {f"p{number}": "x" * 30_000 for number in range(3)}],
    ids=["one property", "all together"],
)
def test_too_large_properties_are_refused(
    sender: ServiceBusSender, properties: dict[str | bytes, str]
) -> None:
    with pytest.raises(ServiceBusError, match="are the limit"):
        sender.send_messages(ServiceBusMessage("a", application_properties=properties))  # type: ignore[arg-type] # the SDK's dict is invariant


def soon(seconds: float = 0.4) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_messages_scheduled_by_annotation_arrive_when_they_are_due(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    due = soon()
    sender.send_messages([ServiceBusMessage(t, scheduled_enqueue_time_utc=due) for t in "ab"])
    sender.send_messages(ServiceBusMessage("now"))
    assert bodies(receiver, 3) == ["now", "a", "b"]
    assert datetime.now(UTC) >= due - timedelta(milliseconds=1)


def test_a_repeated_message_is_accepted_and_dropped(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("unique")
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage("first", message_id="same"))
        sender.send_messages([ServiceBusMessage("second", message_id="same")])
        sender.send_messages(ServiceBusMessage("third", message_id="other"))
        assert bodies(receiver, 2) == ["first", "third"]
