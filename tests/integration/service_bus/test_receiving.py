"""Receiving and settling with the real SDK."""

import time
from collections.abc import Callable

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError

from devstack.disasters import wait_for


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


def test_the_emulator_itself_says_that_a_lapsed_lock_is_lost(
    client: ServiceBusClient, fresh_queue: Callable[[str], str]
) -> None:
    name = fresh_queue("hasty")
    send(client, name, "a")
    with client.get_queue_receiver(name) as receiver:
        lost = one(receiver)
        again = one(receiver)
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
