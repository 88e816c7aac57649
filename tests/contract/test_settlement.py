"""What we do by lock token: what a message looks like afterwards, and for how long it is ours."""

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusSubQueue,
)

from delivery.errors import LockLostError, RejectedError, UnavailableError
from delivery.retry import ATTEMPTS_EXHAUSTED
from devstack.stack import Announced, emulator, run_folder
from services.azure_access import service_bus_client
from services.processing.delivery import Delivery
from services.processing.lock_renewal import LockRenewalService
from services.processing.management_thread import ManagementThread
from services.processing.queue_items import error_properties
from services.processing.settlement import SettlementService
from tests.builders import a_queues_file, nowhere
from tests.fakes.services import MemoryMetrics
from tests.silence import silence

QUEUE = "sbqnormal"
SHORT_LOCK_SECONDS = 3
IDLE_SECONDS = 1
A_DELIVERY = Delivery(QUEUE, b"", uuid.uuid4(), 1, "m-1")
PROPERTIES: dict[str, str | int] = {"ErrorMessage": "größer als erlaubt", "ErrorDeliveryCount": 1}


def a_thread(environ: dict[str, str], patience: float = 30) -> ManagementThread:
    return ManagementThread(
        "test",
        lambda: service_bus_client(environ, "BUS", retry_total=0),
        patience=timedelta(seconds=patience),
    )


def a_settlement(environ: dict[str, str]) -> SettlementService:
    return SettlementService(a_thread(environ))


class Bus:
    """A queue of a running emulator, its receiver, and our settlement beside it."""

    def __init__(self, server: Announced, lock_seconds: int) -> None:
        environ = {"BUS": str(server.facts()["connection_string"])}
        self._client: ServiceBusClient = service_bus_client(environ, "BUS")
        # Reads of the socket end soon: closing waits for the one that runs.
        self.receiver = self._client.get_queue_receiver(QUEUE, socket_timeout=0.05)
        self._sender = self._client.get_queue_sender(QUEUE, socket_timeout=0.05)
        self.settlement = a_settlement(environ)
        self.renewals = a_thread(environ)
        self.locks = LockRenewalService(
            lambda queue, token: self.renewals.run(queue, lambda node: node.renew(token)),
            {QUEUE: timedelta(seconds=lock_seconds)},
            metrics=MemoryMetrics().service,
            now=lambda: datetime.now(UTC),
        )

    def send(self) -> None:
        self._sender.send_messages(
            ServiceBusMessage(b"body", application_properties={"JobName": "a", "Kept": 7})
        )

    def receive(self) -> ServiceBusReceivedMessage:
        [message] = self.receiver.receive_messages(1, max_wait_time=5)
        return message

    def receive_anew(self) -> ServiceBusReceivedMessage:
        """Receive on a new link, where the old one has been detached."""
        with self._client.get_queue_receiver(QUEUE, socket_timeout=0.05) as receiver:
            [message] = receiver.receive_messages(1, max_wait_time=5)
            receiver.complete_message(message)
        return message

    def dead_letter(self) -> ServiceBusReceivedMessage:
        dead = self._client.get_queue_receiver(
            QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER, socket_timeout=0.05
        )
        with dead:
            [message] = dead.receive_messages(1, max_wait_time=5)
            dead.complete_message(message)
        return message

    def empty(self) -> None:
        while messages := self.receiver.receive_messages(10, max_wait_time=0.2):
            for message in messages:
                self.receiver.complete_message(message)

    def close(self) -> None:
        self.settlement.close()
        self.locks.close()
        self.renewals.close()
        self.receiver.close()
        self._sender.close()
        self._client.close()


def _delivery(message: ServiceBusReceivedMessage) -> Delivery:
    token = uuid.UUID(str(message.lock_token))
    count = (message.delivery_count or 0) + 1
    return Delivery(QUEUE, b"body", token, count, "m-1", enqueued=message.enqueued_time_utc)


@contextmanager
def a_bus(lock_seconds: int, *arguments: str) -> Iterator[Bus]:
    with run_folder("test") as folder:
        queues = a_queues_file(folder, LockDuration=f"PT{lock_seconds}S")
        server = emulator(folder, queues, *arguments)
        server.start()
        bus = Bus(server, lock_seconds)
        try:
            yield bus
        finally:
            bus.close()
            server.stop()


@pytest.fixture(scope="module")
def patient() -> Iterator[Bus]:
    with a_bus(60) as bus:
        yield bus


@pytest.fixture
def bus(patient: Bus) -> Iterator[Bus]:
    yield patient
    patient.empty()


@pytest.fixture
def hasty() -> Iterator[Bus]:
    """A queue with locks that can be waited for."""
    with a_bus(SHORT_LOCK_SECONDS) as bus:
        yield bus


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

    def test_a_dead_letter_has_its_reason_and_the_properties(self, bus: Bus) -> None:
        bus.send()
        text = "ü" * 4_000
        assert bus.settlement.dead_letter(_delivery(bus.receive()), "unreadable", text, PROPERTIES)
        dead = bus.dead_letter()
        assert dead.dead_letter_reason == "unreadable"
        assert str(dead.dead_letter_error_description).startswith("üüü")
        properties: dict[Any, Any] = dead.application_properties or {}
        assert properties[b"ErrorMessage"] == "größer als erlaubt".encode()
        assert properties[b"Kept"] == 7

    def test_sb6_error_properties_of_the_greatest_length_are_taken(self, bus: Bus) -> None:
        bus.send()
        properties = error_properties(RejectedError("ü" * 40_000), 10, datetime.now(UTC))
        assert bus.settlement.abandon(_delivery(bus.receive()), properties)
        again = bus.receive()
        assert bus.settlement.dead_letter(
            _delivery(again), ATTEMPTS_EXHAUSTED, str(properties["ErrorMessage"]), properties
        )
        assert bus.dead_letter().dead_letter_reason == ATTEMPTS_EXHAUSTED

    def test_sb1_a_handler_that_blocks_for_longer_than_the_lock_keeps_it(self, hasty: Bus) -> None:
        hasty.send()
        message = hasty.receive()
        with hasty.locks.keep(_delivery(message)) as lock:
            time.sleep(2.5 * SHORT_LOCK_SECONDS)  # a handler that blocks its thread
            lock.check()
        assert hasty.receiver.receive_messages(1, max_wait_time=0.2) == []
        assert hasty.settlement.abandon(_delivery(message), PROPERTIES), "it was ours to the end"
        assert hasty.receive().delivery_count == 1

    def test_sb5_a_lock_that_ran_out_before_the_handler_keeps_it_out(self, hasty: Bus) -> None:
        hasty.send()
        late = _delivery(hasty.receive())
        time.sleep(SHORT_LOCK_SECONDS + 0.5)  # it waits in the worker, as with a long prefetch
        with pytest.raises(LockLostError), hasty.locks.keep(late):
            pytest.fail("the handler was let in")
        hasty.receiver.complete_message(hasty.receive())

    def test_renewal_and_settlement_work_at_once_for_many_threads(self, bus: Bus) -> None:
        for _ in range(30):
            bus.send()
        messages = bus.receiver.receive_messages(30, max_wait_time=5)

        def fail(message: ServiceBusReceivedMessage) -> bool:
            with bus.locks.keep(replace(_delivery(message), enqueued=None)):
                return bus.settlement.abandon(_delivery(message), PROPERTIES)

        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(fail, messages))

    def test_an_unreachable_broker_keeps_the_handler_out(self, unused_port: int) -> None:
        thread = a_thread(nowhere(unused_port))
        locks = LockRenewalService(
            lambda queue, token: thread.run(queue, lambda node: node.renew(token)),
            {QUEUE: timedelta(seconds=SHORT_LOCK_SECONDS)},
            metrics=MemoryMetrics().service,
            now=lambda: datetime.now(UTC),
        )
        with pytest.raises(UnavailableError), locks.keep(A_DELIVERY):
            pytest.fail("the handler was let in")
        thread.close()

    def test_an_unreachable_broker_is_logged_and_not_raised(
        self, caplog: pytest.LogCaptureFixture, unused_port: int
    ) -> None:
        settlement = a_settlement(nowhere(unused_port))
        assert not settlement.abandon(A_DELIVERY, PROPERTIES)
        settlement.close()
        assert "goes back without error properties" in caplog.text
        assert "hunter2" not in caplog.text


@pytest.mark.integration
def test_a_broker_that_takes_the_connection_and_never_answers_is_given_up() -> None:
    with silence() as port:
        thread = a_thread(nowhere(port), patience=1)
        for _ in range(2):
            with pytest.raises(UnavailableError, match="did not answer within 1 s"):
                thread.run(QUEUE, lambda node: node.renew(A_DELIVERY.lock_token))


def test_a_client_that_cannot_even_be_made_is_logged_and_not_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settlement = a_settlement({})
    assert not settlement.abandon(A_DELIVERY, PROPERTIES)
    settlement.close()
    assert "the app setting BUS is missing" in caplog.text


@pytest.mark.integration
def test_sb8_nodes_that_were_detached_while_idle_are_opened_again() -> None:
    with a_bus(60, "--idle-detach", str(IDLE_SECONDS)) as bus:
        bus.send()
        delivery = _delivery(bus.receive())
        old = replace(delivery, enqueued=None)  # its lock is renewed first
        with bus.locks.keep(old):
            bus.settlement.abandon(A_DELIVERY, PROPERTIES)  # opens the other node
        time.sleep(2 * IDLE_SECONDS + 0.3)  # the broker detaches both
        with bus.locks.keep(old):
            assert bus.settlement.abandon(delivery, {"ErrorMessage": "second"})
        again = bus.receive_anew()
    assert (again.application_properties or {})[b"ErrorMessage"] == b"second"
