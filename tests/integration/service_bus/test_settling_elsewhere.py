"""Settling by lock token over `$management`, from another connection than the receiver's."""

from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus._common import mgmt_handlers
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError

from tests.integration.servers import Emulator


@pytest.fixture
def elsewhere(emulator: Emulator, queue: str) -> Iterator[ServiceBusReceiver]:
    with emulator.client() as client, client.get_queue_receiver(queue) as receiver:
        yield receiver


@pytest.fixture
def message(sender: ServiceBusSender, receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    sender.send_messages(ServiceBusMessage("a", application_properties={"kept": 1}))
    (received,) = receiver.receive_messages(1)
    return received


def settle(
    via: ServiceBusReceiver, message: ServiceBusReceivedMessage, status: str, **fields: object
) -> Any:
    transport = via._amqp_transport  # noqa: SLF001 - the SDK has no public way to do this
    return via._mgmt_request_response(  # noqa: SLF001 - as above
        b"com.microsoft:update-disposition",
        {
            "disposition-status": status,
            "lock-tokens": transport.AMQP_ARRAY_VALUE([message.lock_token]),
        }
        | {name.replace("_", "-"): value for name, value in fields.items()},
        mgmt_handlers.default,
        timeout=5,
    )


def again(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    (received,) = receiver.receive_messages(1, max_wait_time=3)
    return received


def test_renewing(elsewhere: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
    (until,) = elsewhere._renew_locks(message.lock_token)[b"expirations"]  # type: ignore[arg-type] # noqa: SLF001 - the SDK's renewal asks for its own message
    assert message.locked_until_utc is not None
    assert until > message.locked_until_utc.timestamp() * 1000


def test_completing_leaves_a_lost_lock_for_the_first_link(
    elsewhere: ServiceBusReceiver, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage
) -> None:
    settle(elsewhere, message, "completed")
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(message)
    with pytest.raises(MessageLockLostError):
        settle(elsewhere, message, "completed")
    assert receiver.peek_messages(1, sequence_number=1) == []


def test_abandoning_with_properties_keeps_the_senders_and_counts(
    elsewhere: ServiceBusReceiver, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage
) -> None:
    changes = {"ErrorMessage": "boom", "ErrorDeliveryCount": 1}
    settle(elsewhere, message, "abandoned", properties_to_modify=changes)
    with pytest.raises(MessageLockLostError):
        receiver.abandon_message(message)
    received = again(receiver)
    assert received.delivery_count == 1
    assert received.application_properties == {
        b"kept": 1,
        b"ErrorMessage": b"boom",
        b"ErrorDeliveryCount": 1,
    }
    receiver.complete_message(received)


def test_the_link_stays_usable_after_a_lost_lock(
    elsewhere: ServiceBusReceiver,
    sender: ServiceBusSender,
    receiver: ServiceBusReceiver,
    message: ServiceBusReceivedMessage,
) -> None:
    settle(elsewhere, message, "completed")
    with pytest.raises(MessageLockLostError):
        receiver.dead_letter_message(message, reason="late")
    sender.send_messages(ServiceBusMessage("next"))
    received = again(receiver)
    assert str(received) == "next"
    receiver.complete_message(received)


def test_dead_lettering_with_reason_description_and_properties(
    client: ServiceBusClient,
    queue: str,
    elsewhere: ServiceBusReceiver,
    message: ServiceBusReceivedMessage,
) -> None:
    settle(
        elsewhere,
        message,
        "suspended",
        deadletter_reason="why",
        deadletter_description="more",
        properties_to_modify={"ErrorType": "T"},
    )
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        received = again(dead)
        assert (received.dead_letter_reason, received.dead_letter_error_description) == (
            "why",
            "more",
        )
        assert received.application_properties is not None
        assert received.application_properties[b"ErrorType"] == b"T"
        settle(dead, received, "completed")
        assert dead.peek_messages(1, sequence_number=1) == []


def test_deferring(
    elsewhere: ServiceBusReceiver, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage
) -> None:
    settle(elsewhere, message, "defered", properties_to_modify={"why": "later"})
    assert message.sequence_number is not None
    (received,) = receiver.receive_deferred_messages(message.sequence_number)
    assert received.application_properties == {b"kept": 1, b"why": b"later"}
    receiver.complete_message(received)


def test_oversized_error_details_are_refused_and_the_lock_is_kept(
    elsewhere: ServiceBusReceiver, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage
) -> None:
    with pytest.raises(ServiceBusError, match="are the limit"):
        settle(elsewhere, message, "abandoned", properties_to_modify={"trace": "x" * 40_000})
    receiver.complete_message(message)


def test_what_is_not_implemented_is_refused_by_name(elsewhere: ServiceBusReceiver) -> None:
    with pytest.raises(ServiceBusError, match=r"'com\.microsoft:add-rule' is not implemented"):
        elsewhere._mgmt_request_response(  # noqa: SLF001 - no public way
            b"com.microsoft:add-rule", {}, mgmt_handlers.default, timeout=5
        )
