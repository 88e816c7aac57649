"""What other SDKs do on a link and Python's does not, frame by frame."""

from collections.abc import Callable
from typing import Any

import pytest
from proton import Condition, Delivery, Message, ulong

from tests.integration.servers import Emulator
from tests.integration.service_bus.raw import connected

TYPED = {"big": ulong(2**63), "text": "t"}


def send(connection: Any, queue: str, count: int = 1) -> None:
    sender = connection.create_sender(queue)
    for _ in range(count):
        sender.send(Message(body=b"a", inferred=True, properties=TYPED))


def settled(connection: Any, receiver: Any, decide: Callable[[Delivery], None]) -> Delivery:
    """Receive one message, decide, and wait for the emulator's answer to the decision."""
    receiver.receive(timeout=5)
    delivery: Delivery = receiver.fetcher.unsettled.popleft()
    decide(delivery)
    connection.wait(lambda: delivery.settled, timeout=5)
    delivery.settle()
    return delivery


def abandon(delivery: Delivery) -> None:
    delivery.local.annotations = {"ErrorMessage": "boom"}
    delivery.update(Delivery.MODIFIED)


def defer(delivery: Delivery) -> None:
    delivery.local.undeliverable = True
    delivery.update(Delivery.MODIFIED)


def dead_letter(delivery: Delivery) -> None:
    delivery.local.condition = Condition(
        "com.microsoft:dead-letter",
        None,
        {"DeadLetterReason": "why", "DeadLetterErrorDescription": "more", "ErrorType": "T"},
    )
    delivery.update(Delivery.REJECTED)


def test_abandoning_with_properties_on_the_link(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        send(connection, queue)
        receiver = connection.create_receiver(queue, credit=1)
        delivery = settled(connection, receiver, abandon)
        assert delivery.remote_state == Delivery.MODIFIED
        message = receiver.receive(timeout=5)
        assert message.properties == TYPED | {"ErrorMessage": "boom"}
        assert type(message.properties["big"]) is ulong
        assert message.delivery_count == 1


def test_dead_lettering_with_properties_on_the_link(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        send(connection, queue)
        delivery = settled(connection, connection.create_receiver(queue, credit=1), dead_letter)
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition is None
        dead = connection.create_receiver(f"{queue}/$DeadLetterQueue", credit=1)
        assert dead.receive(timeout=5).properties == TYPED | {
            "DeadLetterReason": "why",
            "DeadLetterErrorDescription": "more",
            "ErrorType": "T",
        }


def test_deferring_on_the_link(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        send(connection, queue)
        receiver = connection.create_receiver(queue, credit=1)
        assert settled(connection, receiver, defer).remote_state == Delivery.MODIFIED
        with emulator.client() as client, client.get_queue_receiver(queue) as other:
            (peeked,) = other.peek_messages(1, sequence_number=1)
            assert peeked.state.name == "DEFERRED"


def test_a_batch_whose_envelope_copies_its_first_message(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        inner = [Message(body=text, inferred=True, properties=TYPED) for text in (b"a", b"b")]
        envelope = Message(body=b"", inferred=True, properties=TYPED).encode()
        sections = [
            b"\x00\x53\x75\xb0" + len(m).to_bytes(4) + m for m in map(Message.encode, inner)
        ]
        sender = connection.create_sender(queue)
        delivery = sender.link.delivery("t1")
        sender.link.send(envelope.removesuffix(b"\x00\x53\x75\xa0\x00") + b"".join(sections))
        sender.link.advance()
        connection.wait(lambda: delivery.settled, timeout=5)
        receiver = connection.create_receiver(queue, credit=2)
        received = [receiver.receive(timeout=5) for _ in range(2)]
        assert [bytes(message.body) for message in received] == [b"a", b"b"]


def test_a_message_without_an_id_is_given_one(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        send(connection, queue)
        receiver = connection.create_receiver(queue, credit=1)
        delivery = settled(connection, receiver, abandon)
        again = receiver.receive(timeout=5)
        assert delivery.remote_state == Delivery.MODIFIED
        assert len(again.id) == 32


def test_a_batch_of_a_megabyte_crosses_many_frames(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        inner = Message(body=b"x" * 200_000, inferred=True).encode()
        section = b"\x00\x53\x75\xb0" + len(inner).to_bytes(4) + inner
        sender = connection.create_sender(queue)
        delivery = sender.link.delivery("t1")
        sender.link.send(section * 5)
        sender.link.advance()
        connection.wait(lambda: delivery.settled, timeout=5)
        assert delivery.remote_state == Delivery.ACCEPTED
        receiver = connection.create_receiver(queue, credit=5)
        assert [len(receiver.receive(timeout=5).body) for _ in range(5)] == [200_000] * 5


def test_ending_a_session_without_detaching_frees_its_links(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        session = connection.conn.session()
        session.open()
        link = session.receiver("forgotten")
        link.source.address = queue
        link.open()
        link.flow(10)
        connection.wait(lambda: link.state & link.REMOTE_ACTIVE, timeout=5)
        session.close()
        connection.wait(lambda: session.state & session.REMOTE_CLOSED, timeout=5)
        send(connection, queue)
        again = connection.create_receiver(queue, credit=1)
        assert again.receive(timeout=5).delivery_count == 0


@pytest.mark.parametrize("credit", [1, 7])
def test_no_more_is_delivered_than_there_is_credit(
    emulator: Emulator, queue: str, credit: int
) -> None:
    with connected(emulator, queue) as connection:
        send(connection, queue, 9)
        receiver = connection.create_receiver(queue, credit=credit)
        connection.wait(lambda: receiver.fetcher.has_message == credit, timeout=5)
        with emulator.client() as client, client.get_queue_receiver(queue) as other:
            left = other.receive_messages(9, max_wait_time=2)
            assert len(left) == 9 - credit


def test_a_sender_is_granted_credit_for_as_long_as_it_sends(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        send(connection, queue, 1200)
        with emulator.client() as client, client.get_queue_receiver(queue) as other:
            assert len(other.peek_messages(250, sequence_number=1101)) == 100
