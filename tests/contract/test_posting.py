"""The port `Post` on a real broker: what is accepted is there, and comes when it is due."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusReceivedMessage

from delivery.errors import TransitiveError, UnavailableError
from devstack.stack import QUEUES, Announced, emulator, run_folder
from services.azure_access import service_bus_client
from services.processing.copies import postponed, set_aside
from services.processing.posting import PostingService
from tests.builders import a_delivery, nowhere
from tests.silence import silence

pytestmark = pytest.mark.integration

IDLE_SECONDS = 1


@pytest.fixture(scope="module")
def server() -> Iterator[Announced]:
    """The emulator with links that idle out sooner than in ten minutes."""
    with run_folder("test") as folder:
        server = emulator(folder, QUEUES, "--idle-detach", str(IDLE_SECONDS))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def environ(server: Announced) -> dict[str, str]:
    return {"BUS": str(server.facts()["connection_string"])}


@pytest.fixture
def posting(environ: dict[str, str]) -> Iterator[PostingService]:
    posting = PostingService(lambda: service_bus_client(environ, "BUS", retry_total=0))
    yield posting
    posting.close()


def take(environ: dict[str, str], queue: str, seconds: float = 5) -> ServiceBusReceivedMessage:
    client = service_bus_client(environ, "BUS")
    with client, client.get_queue_receiver(queue, socket_timeout=0.05) as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=seconds)
        receiver.complete_message(message)
        return message


def test_a_copy_that_is_set_aside_has_the_reason_and_the_way_back(
    posting: PostingService, environ: dict[str, str]
) -> None:
    posting.post("sbqtransitivenormal", set_aside(a_delivery(), TransitiveError("no D9 yet")))
    message = take(environ, "sbqtransitivenormal")
    properties: dict[Any, Any] = message.application_properties or {}
    assert b"".join(message.body) == a_delivery().body
    assert properties[b"OriginalQueue"] == b"sbqnormal"
    assert properties[b"ErrorMessage"] == b"no D9 yet"
    assert properties[b"SourceKey"] == b"D1"


def test_a_copy_that_is_put_off_comes_back_when_it_is_due_and_no_sooner(
    posting: PostingService, environ: dict[str, str]
) -> None:
    now = datetime.now(UTC)
    delivery = a_delivery(
        delivery_count=6,
        expires=now + timedelta(hours=1),
        properties={"n": 7, "b": True, "large": 2**40},
    )
    posting.post("sbqnormal", postponed(delivery, timedelta(seconds=2), now))
    message = take(environ, "sbqnormal")
    assert datetime.now(UTC) - now >= timedelta(seconds=2)
    assert message.delivery_count == 0
    assert message.application_properties == {
        b"n": 7,
        b"b": True,
        b"large": 2**40,
        b"CarriedAttempts": 5,
        b"Postponements": 1,
    }
    assert message.expires_at_utc is not None
    assert abs(message.expires_at_utc - now - timedelta(hours=1)) < timedelta(seconds=2)


def test_sb8_a_sender_that_was_detached_while_idle_is_opened_again(
    posting: PostingService, environ: dict[str, str]
) -> None:
    for _ in range(2):
        posting.post("sbqignored", set_aside(a_delivery(), TransitiveError("late")))
        take(environ, "sbqignored")
        time.sleep(2 * IDLE_SECONDS + 0.3)  # the broker detaches the link


def test_a_broker_that_is_away_is_told_within_a_few_seconds(unused_port: int) -> None:
    environ = nowhere(unused_port)
    posting = PostingService(lambda: service_bus_client(environ, "BUS", retry_total=0))
    with pytest.raises(UnavailableError) as error:
        posting.post("sbqnormal", set_aside(a_delivery(), TransitiveError("late")))
    posting.close()
    assert "hunter2" not in str(error.value)


def test_a_broker_that_takes_the_connection_and_never_answers_is_given_up() -> None:
    with silence() as port:
        environ = nowhere(port)
        posting = PostingService(
            lambda: service_bus_client(environ, "BUS", retry_total=0),
            patience=timedelta(seconds=1),
        )
        for _ in range(2):
            with pytest.raises(UnavailableError, match="did not answer within 1 s"):
                posting.post("sbqnormal", set_aside(a_delivery(), TransitiveError("late")))
