"""Receiving and settling with the real SDK."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError

from tests.integration.disasters import wait_for


def send(client: ServiceBusClient, queue: str, *texts: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(text) for text in texts])


def one(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    (message,) = receiver.receive_messages(1, max_wait_time=3)
    return message


def dead_letters(client: ServiceBusClient, queue: str) -> ServiceBusReceiver:
    return client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)


def is_empty(receiver: ServiceBusReceiver) -> bool:
    return not receiver.peek_messages(1, sequence_number=1)


def test_completing_removes_the_message(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    sender.send_messages(ServiceBusMessage("a"))
    receiver.complete_message(one(receiver))
    assert is_empty(receiver)


def test_abandoning_brings_it_back_at_once_in_its_place(
    client: ServiceBusClient, queue: str, receiver: ServiceBusReceiver
) -> None:
    send(client, queue, "a", "b")
    receiver.abandon_message(one(receiver))
    again = one(receiver)
    assert (str(again), again.delivery_count) == ("a", 1)
    receiver.complete_message(again)


def test_too_many_failures_lead_to_the_dead_letter_queue(
    client: ServiceBusClient, queue: str, receiver: ServiceBusReceiver
) -> None:
    send(client, queue, "poison", "good")
    for _ in range(3):
        receiver.abandon_message(one(receiver))
    good = one(receiver)
    assert str(good) == "good"
    receiver.complete_message(good)
    with dead_letters(client, queue) as dead:
        message = one(dead)
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert message.dead_letter_source == queue
        dead.complete_message(message)


def test_dead_lettering_keeps_reason_and_description(
    client: ServiceBusClient, queue: str, receiver: ServiceBusReceiver
) -> None:
    send(client, queue, "a")
    receiver.dead_letter_message(one(receiver), reason="why", error_description="more")
    with dead_letters(client, queue) as dead:
        message = one(dead)
        assert message.dead_letter_reason == "why"
        assert message.dead_letter_error_description == "more"
        assert message.application_properties == {
            b"DeadLetterReason": b"why",
            b"DeadLetterErrorDescription": b"more",
        }
        with pytest.raises(ServiceBusError, match="cannot be dead-lettered again"):
            dead.dead_letter_message(message, reason="again")
        assert not is_empty(dead)


def test_dead_lettering_needs_no_reason(
    client: ServiceBusClient, queue: str, receiver: ServiceBusReceiver
) -> None:
    send(client, queue, "a")
    receiver.dead_letter_message(one(receiver))
    with dead_letters(client, queue) as dead:
        dead.complete_message(one(dead))


def test_a_reason_over_the_limit_is_refused(
    client: ServiceBusClient, queue: str, receiver: ServiceBusReceiver
) -> None:
    send(client, queue, "a")
    with pytest.raises(ServiceBusError, match="4096 are the limit"):
        receiver.dead_letter_message(one(receiver), reason="x" * 4097)
    with dead_letters(client, queue) as dead:
        assert is_empty(dead)


def test_a_deferred_message_is_received_by_its_number(
    client: ServiceBusClient, queue: str, receiver: ServiceBusReceiver
) -> None:
    send(client, queue, "a", "b")
    message = one(receiver)
    receiver.defer_message(message)
    other = one(receiver)
    assert str(other) == "b"
    assert message.sequence_number is not None
    (deferred,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.renew_message_lock(deferred)
    receiver.complete_message(deferred)
    receiver.complete_message(other)
    with pytest.raises(ServiceBusError):
        receiver.receive_deferred_messages(message.sequence_number)


def test_receive_and_delete_needs_no_settling(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, *"abc")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_queue_receiver(queue, receive_mode=mode) as receiver:
        received: list[str] = []
        while len(received) < 3:
            received += map(str, receiver.receive_messages(3, max_wait_time=2))
        assert received == ["a", "b", "c"]
        assert is_empty(receiver)


def test_a_lapsed_lock_is_lost_and_the_message_comes_again(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("hasty")
    send(client, name, "a")
    with client.get_queue_receiver(name) as receiver:
        lost = one(receiver)
        again = one(receiver)
        assert (str(again), again.delivery_count) == ("a", 1)
        # Past the SDK's own look at the clock, to hear what the emulator says.
        with pytest.raises(MessageLockLostError):
            receiver._do_retryable_operation(  # noqa: SLF001 - see above
                receiver._settle_message,  # noqa: SLF001 - see above
                timeout=None,
                message=lost,
                settle_operation="complete",
            )
        with pytest.raises(MessageLockLostError):
            receiver._settle_message_via_mgmt_link("completed", [lost.lock_token])  # type: ignore[list-item] # noqa: SLF001 - see above
        receiver.complete_message(again)


def test_a_renewed_lock_holds(client: ServiceBusClient, fresh_queue: Callable[[str], str]) -> None:
    name = fresh_queue("hasty")
    send(client, name, "a")
    with client.get_queue_receiver(name) as receiver:
        message = one(receiver)
        before = message.lock_token
        for _ in range(4):
            time.sleep(0.2)
            receiver.renew_message_lock(message)
        assert message.lock_token == before
        receiver.complete_message(message)
        assert is_empty(receiver)


def test_a_poison_message_that_kills_its_reader_ends_in_the_dead_letter_queue(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("hasty")
    send(client, name, "poison", "good")
    with client.get_queue_receiver(name) as receiver:
        for expected in range(3):
            message = one(receiver)
            if str(message) == "good":
                receiver.complete_message(message)
                message = one(receiver)
            assert (str(message), message.delivery_count) == ("poison", expected)
    with dead_letters(client, name) as dead:
        wait_for(lambda: not is_empty(dead), 5)


@pytest.mark.parametrize("prefetch", [0, 20])
def test_closing_gives_back_what_was_not_taken_uncounted(
    client: ServiceBusClient, queue: str, prefetch: int
) -> None:
    send(client, queue, *map(str, range(10)))
    with client.get_queue_receiver(queue, prefetch_count=prefetch) as receiver:
        receiver.complete_message(one(receiver))
    with client.get_queue_receiver(queue) as receiver:
        again = [one(receiver) for _ in range(9)]
        assert [m.delivery_count for m in again] == [0] * 9
        assert [str(m) for m in again] == [str(number) for number in range(1, 10)]


def test_an_iterating_receiver_gets_what_is_sent_meanwhile(
    sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    sender.send_messages(ServiceBusMessage("1"))
    seen = []
    for message in receiver:
        seen.append(str(message))
        receiver.complete_message(message)
        if len(seen) == 3:
            break
        sender.send_messages(ServiceBusMessage(str(len(seen) + 1)))
    assert seen == ["1", "2", "3"]


def test_several_receivers_share_the_messages(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, *map(str, range(40)))
    with client.get_queue_receiver(queue) as first, client.get_queue_receiver(queue) as second:
        seen: list[str] = []
        while len(seen) < 40:
            for receiver in (first, second):
                for message in receiver.receive_messages(8, max_wait_time=1):
                    receiver.complete_message(message)
                    seen.append(str(message))
    assert sorted(seen, key=int) == [str(number) for number in range(40)]


def test_an_expired_message_is_dead_lettered_when_somebody_looks(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("expiring")
    send(client, name, "a")
    time.sleep(0.5)
    with client.get_queue_receiver(name) as receiver, dead_letters(client, name) as dead:
        assert is_empty(dead)
        assert receiver.receive_messages(1, max_wait_time=0.3) == []
        message = one(dead)
        assert message.dead_letter_reason == "TTLExpiredException"
        time.sleep(0.5)
        dead.abandon_message(message)
        dead.complete_message(one(dead))


def test_an_expired_message_is_dropped_where_the_queue_does_not_dead_letter(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("dropping")
    send(client, name, "a")
    time.sleep(0.5)
    with client.get_queue_receiver(name) as receiver, dead_letters(client, name) as dead:
        assert is_empty(receiver)
        assert is_empty(dead)


def test_a_message_that_expires_while_locked_is_completed_or_dead_lettered(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("expiring")
    with client.get_queue_receiver(name) as receiver, dead_letters(client, name) as dead:
        send(client, name, "completed", "abandoned")
        completed, abandoned = one(receiver), one(receiver)
        time.sleep(0.6)
        receiver.complete_message(completed)
        receiver.abandon_message(abandoned)
        assert receiver.receive_messages(1, max_wait_time=0.3) == []
        letter = one(dead)
        assert (str(letter), letter.dead_letter_reason) == ("abandoned", "TTLExpiredException")
        dead.complete_message(letter)
        assert is_empty(dead)


def test_a_dead_letter_that_was_refused_again_comes_again_as_it_was(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("hasty")
    send(client, name, "a")
    with client.get_queue_receiver(name) as receiver, dead_letters(client, name) as dead:
        receiver.dead_letter_message(one(receiver), reason="first")
        for _ in range(4):  # more than a queue would let it fail
            with pytest.raises(ServiceBusError, match="cannot be dead-lettered again"):
                dead.dead_letter_message(one(dead), reason="second")
        letter = one(dead)
        assert (str(letter), letter.dead_letter_reason) == ("a", "first")
        dead.complete_message(letter)
        assert is_empty(dead)


def test_peeking_shows_every_state_and_changes_nothing(
    client: ServiceBusClient, queue: str, sender: ServiceBusSender, receiver: ServiceBusReceiver
) -> None:
    send(client, queue, "deferred", "locked", "active")
    receiver.defer_message(one(receiver))
    locked = one(receiver)
    sender.schedule_messages(ServiceBusMessage("later"), datetime.now(UTC) + timedelta(hours=1))
    found = receiver.peek_messages(10, sequence_number=1)
    assert [(str(m), m.state.name) for m in found] == [
        ("deferred", "DEFERRED"),
        ("locked", "ACTIVE"),
        ("active", "ACTIVE"),
        ("later", "SCHEDULED"),
    ]
    assert [str(m) for m in receiver.peek_messages(1, sequence_number=3)] == ["active"]
    receiver.complete_message(locked)
