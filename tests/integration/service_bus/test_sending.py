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
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    ServiceBusError,
)


def bodies(receiver: ServiceBusReceiver, count: int) -> list[str]:
    received: list[str] = []
    while len(received) < count:
        messages = receiver.receive_messages(count - len(received), max_wait_time=2)
        assert messages, f"only {received} came"
        for message in messages:
            receiver.complete_message(message)
            received.append(str(message))
    return received


def test_a_message_arrives_with_all_that_it_was_sent_with(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    sender.send_messages(
        ServiceBusMessage(
            b"body",
            message_id="id",
            subject="subject",
            correlation_id="correlation",
            content_type="text/plain",
            reply_to="back",
            to="there",
            partition_key="p",
            time_to_live=timedelta(seconds=40),
            application_properties={"number": 1, "text": "t", "flag": True},
        )
    )
    (message,) = receiver.receive_messages(1)
    assert (message.message_id, message.subject, message.correlation_id) == (
        "id",
        "subject",
        "correlation",
    )
    assert (message.content_type, message.reply_to, message.to) == ("text/plain", "back", "there")
    assert (message.partition_key, message.time_to_live) == ("p", timedelta(seconds=40))
    assert message.application_properties == {b"number": 1, b"text": b"t", b"flag": True}
    assert message.sequence_number == 1
    assert message.enqueued_time_utc is not None
    assert abs(message.enqueued_time_utc - datetime.now(UTC)) < timedelta(seconds=5)
    receiver.complete_message(message)


def test_a_null_property_hangs_nothing(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    sender.send_messages(ServiceBusMessage("a", application_properties={"none": None}))  # type: ignore[dict-item] # SB11: callers do it
    (message,) = receiver.receive_messages(1)
    assert dict(message.application_properties or {}) == {b"none": None}
    receiver.complete_message(message)


def test_batches_and_lists_arrive_in_order(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    batch = sender.create_message_batch()
    for number in range(50):
        batch.add_message(ServiceBusMessage(f"b{number}", message_id=f"m{number}"))
    sender.send_messages(batch)
    sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])
    sender.send_messages([ServiceBusMessage("one alone in a batch")])
    expected = [f"b{number}" for number in range(50)] + ["x", "y", "one alone in a batch"]
    assert bodies(receiver, 53) == expected


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


def test_too_large_a_message_is_refused_and_the_sender_stays_usable(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(ServiceBusMessage("x" * 256 * 1024))
    sender.send_messages(ServiceBusMessage("small"))
    assert bodies(receiver, 1) == ["small"]


def test_a_batch_holds_as_much_as_the_service_takes(sender: ServiceBusSender) -> None:
    batch = sender.create_message_batch()
    batch.add_message(ServiceBusMessage("x" * 200_000))
    with pytest.raises(MessageSizeExceededError):
        batch.add_message(ServiceBusMessage("x" * 100_000))
    assert batch.max_size_in_bytes == 256 * 1024


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


@pytest.mark.parametrize("by", ["request", "annotation"])
def test_a_scheduled_message_arrives_when_it_is_due(
    sender: ServiceBusSender, receiver: ServiceBusReceiver, by: str
) -> None:
    due = soon()
    if by == "request":
        numbers = sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], due)
        assert numbers == [1, 2]
    else:
        messages = [ServiceBusMessage(t, scheduled_enqueue_time_utc=due) for t in "ab"]
        sender.send_messages(messages)
    sender.send_messages(ServiceBusMessage("now"))
    assert bodies(receiver, 3) == ["now", "a", "b"]
    assert datetime.now(UTC) >= due - timedelta(milliseconds=1)


def test_a_cancelled_message_never_arrives(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    first, second = sender.schedule_messages([ServiceBusMessage(t) for t in "ab"], soon(0.3))
    sender.cancel_scheduled_messages(first)
    assert bodies(receiver, 1) == ["b"]
    with pytest.raises(ServiceBusError):
        sender.cancel_scheduled_messages([second])


def test_a_repeated_message_is_accepted_and_dropped(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("unique")
    with client.get_queue_sender(name) as sender, client.get_queue_receiver(name) as receiver:
        sender.send_messages(ServiceBusMessage("first", message_id="same"))
        sender.send_messages([ServiceBusMessage("second", message_id="same")])
        sender.send_messages(ServiceBusMessage("third", message_id="other"))
        assert bodies(receiver, 2) == ["first", "third"]
