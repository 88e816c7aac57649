"""Who may not, or asks for what is not there, is told so in a way that SDKs understand."""

import random
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from proton import Delivery, Endpoint, Message, Terminus
from proton.utils import LinkDetached

from tests.integration.servers import Emulator
from tests.integration.service_bus.raw import connected, put, put_token


def sending(client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("a"))


def receiving(client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_receiver(queue, max_wait_time=1) as receiver:
        receiver.receive_messages(1)


def test_sending_to_a_dead_letter_queue_is_refused(client: ServiceBusClient, queue: str) -> None:
    with pytest.raises(ServiceBusError, match="takes no messages from senders"):
        sending(client, f"{queue}/$DeadLetterQueue")


def test_sessions_are_refused_by_name(client: ServiceBusClient, queue: str) -> None:
    with pytest.raises(ServiceBusError, match="Sessions are not implemented"):
        client.get_queue_receiver(queue, session_id="s").__enter__()
    with pytest.raises(ServiceBusError, match="Sessions are not implemented"):
        client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION).__enter__()


def test_subscriptions_are_refused_by_name(client: ServiceBusClient) -> None:
    with (
        pytest.raises(ServiceBusError, match="subscriptions are not implemented"),
        client.get_subscription_receiver("topic", "subscription") as receiver,
    ):
        receiver.receive_messages(1)


def refused(connection: Any, address: str | None) -> str:
    options = CoordinatorOption() if address is None else None
    attach = connection.create_receiver if address else connection.create_sender
    with pytest.raises(LinkDetached) as error:
        attach(address, options=options)
    return str(error.value)


class CoordinatorOption:
    """Attaches to a transaction coordinator instead of a queue."""

    def test(self, link: object) -> bool:
        return link is not None

    def apply(self, link: Any) -> None:
        link.target.type = Terminus.COORDINATOR


def test_a_link_without_a_token_is_refused(emulator: Emulator, queue: str) -> None:
    with connected(emulator) as connection:
        assert "amqp:unauthorized-access" in refused(connection, queue)
        assert "amqp:unauthorized-access" in refused(connection, f"{queue}/$management")


def test_a_token_for_one_queue_does_not_open_another(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        assert "amqp:unauthorized-access" in refused(connection, "hasty-0")


def test_a_forged_token_is_answered_with_401(emulator: Emulator, queue: str) -> None:
    with connected(emulator) as connection:
        assert put(connection, "SharedAccessSignature sr=a&sig=b&se=9&skn=c", queue) == 401


@pytest.mark.parametrize("fault", [{"seconds": -1}, {"key": "another-key"}])
def test_an_expired_or_wrongly_signed_token_opens_nothing(
    emulator: Emulator, queue: str, fault: dict[str, Any]
) -> None:
    with connected(emulator) as connection:
        assert put_token(connection, emulator, queue, **fault) == 401
        assert "amqp:unauthorized-access" in refused(connection, queue)


@pytest.mark.parametrize("fault", [{"seconds": -1}, {"key": "another-key"}])
def test_a_bad_token_takes_nothing_from_a_good_one(
    emulator: Emulator, queue: str, fault: dict[str, Any]
) -> None:
    with connected(emulator, queue) as connection:
        assert put_token(connection, emulator, queue, **fault) == 401
        connection.create_sender(queue).send(Message(body=b"a"))


@pytest.mark.parametrize("attach", ["create_sender", "create_receiver"])
def test_a_link_ends_when_its_token_expires(emulator: Emulator, queue: str, attach: str) -> None:
    with connected(emulator) as connection:
        assert put_token(connection, emulator, queue, seconds=2) == 202
        link = getattr(connection, attach)(queue)
        with pytest.raises(LinkDetached, match=r"unauthorized-access.*has expired"):
            connection.wait(lambda: link.link.state & Endpoint.REMOTE_CLOSED, timeout=8)
        assert "amqp:unauthorized-access" in refused(connection, f"{queue}/$management")


def test_a_message_whose_receivers_token_expired_comes_again(
    emulator: Emulator, fresh_queue: Callable[[str], str]
) -> None:
    queue = fresh_queue("hasty")
    with connected(emulator) as connection, emulator.client() as client:
        sending(client, queue)
        assert put_token(connection, emulator, queue, seconds=2) == 202
        receiver = connection.create_receiver(queue)
        receiver.receive(timeout=2)
        with pytest.raises(LinkDetached, match="has expired"):
            connection.wait(lambda: receiver.link.state & Endpoint.REMOTE_CLOSED, timeout=8)
        with client.get_queue_receiver(queue, max_wait_time=3) as other:
            (message,) = other.receive_messages(1)
            assert message.delivery_count
            other.complete_message(message)


def test_a_link_lives_on_when_its_token_is_renewed(emulator: Emulator, queue: str) -> None:
    with connected(emulator) as connection:
        assert put_token(connection, emulator, queue, seconds=2) == 202
        sender = connection.create_sender(queue)
        assert put_token(connection, emulator, queue) == 202
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            sender.send(Message(body=b"a"))
            time.sleep(0.2)


def test_an_address_that_is_no_uri_is_not_found(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        assert "amqp:not-found" in refused(connection, "sb://[")
    assert "Traceback" not in emulator.log_text()


def test_transactions_are_refused_by_name(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        assert "Transactions are not implemented" in refused(connection, None)


def test_garbage_on_the_port_hurts_nobody_else(emulator: Emulator, queue: str) -> None:
    source = random.Random(1)  # noqa: S311 - the same garbage every time
    header = b"AMQP\x03\x01\x00\x00AMQP\x00\x01\x00\x00"
    with emulator.client() as client, client.get_queue_sender(queue) as sender:
        for round_ in range(60):
            garbage = source.randbytes(source.randrange(1, 4000))
            with socket.create_connection(("127.0.0.1", emulator.port), timeout=5) as peer:
                peer.sendall(header[: source.randrange(len(header) + 1)] + garbage)
                if round_ % 2:
                    peer.shutdown(socket.SHUT_WR)
                    peer.settimeout(5)
                    try:
                        while peer.recv(4096):
                            pass
                    except ConnectionResetError:
                        pass
            sender.send_messages(ServiceBusMessage(str(round_)))
        with client.get_queue_receiver(queue) as receiver:
            assert len(receiver.peek_messages(100, sequence_number=1)) == 60
    assert "Traceback" not in emulator.log_text()


def test_a_garbled_message_is_rejected_and_the_link_stays(emulator: Emulator, queue: str) -> None:
    with connected(emulator, queue) as connection:
        sender = connection.create_sender(queue)
        delivery = sender.link.delivery("t1")
        sender.link.send(b"\xff\xff\xff")
        sender.link.advance()
        connection.wait(lambda: delivery.settled, timeout=5)
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:decode-error"
