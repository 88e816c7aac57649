"""What the mover expects of a broker: of the one in memory, and of the emulator through the SDK."""

import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from dead_letter_mover.broker import ServiceBusBroker
from dead_letter_mover.cli import Queue
from dead_letter_mover.mover import Locked
from delivery.errors import RejectedError
from devstack.stack import emulator, run_folder
from services.amqp_sections import (
    APPLICATION_PROPERTIES,
    map_section,
    pairs,
    sections,
    string,
)
from services.azure_access import service_bus_client
from tests.builders import a_queues_file
from tests.encoded_messages import MemoryBroker, an_encoded, decoded

QUEUE = "sbqtransitivelow"
TARGET = "sbqlow"
LOCK_SECONDS = 2


class Scene(Protocol):
    """A broker, and what happens around it."""

    @property
    def broker(self) -> Queue:
        """The broker."""

    def fill(self, count: int) -> None:
        """Put messages into the queue, with bodies 1, 2, …"""

    def arrived(self) -> list[bytes]:
        """Take the bodies of what was sent."""

    def let_locks_expire(self) -> None:
        """Return once no lock is in force."""


class BrokerContract:
    @pytest.fixture
    def scene(self) -> Scene | Iterator[Scene]:
        raise NotImplementedError

    def test_every_message_is_shown_in_order_locked_or_not(self, scene: Scene) -> None:
        scene.fill(5)
        scene.broker.receive(2)
        assert [letter.body for letter in scene.broker.letters()] == [b"1", b"2", b"3", b"4", b"5"]

    def test_a_locked_message_is_not_handed_out_again_until_it_is_given_back(
        self, scene: Scene
    ) -> None:
        scene.fill(3)
        first = scene.broker.receive(2)
        assert numbers(scene.broker.receive(5)).isdisjoint(numbers(first))
        scene.broker.give_back([message.lock_token for message in first])
        assert numbers(scene.broker.receive(5)) == numbers(first)

    def test_a_locked_message_can_be_had_as_it_is_encoded(self, scene: Scene) -> None:
        scene.fill(4)
        locked = scene.broker.receive(4)
        wanted = [locked[0].sequence_number, locked[3].sequence_number]
        found = scene.broker.encoded([*wanted, 10**6])
        assert [decoded(found[number]).data for number in wanted] == [[b"1"], [b"4"]]
        assert list(found) == wanted

    def test_what_is_completed_is_gone(self, scene: Scene) -> None:
        scene.fill(3)
        assert scene.broker.complete(scene.broker.receive(2)) == []
        assert [letter.body for letter in scene.broker.letters()] == [b"3"]

    def test_what_is_completed_too_late_stays_and_its_neighbours_go(self, scene: Scene) -> None:
        scene.fill(2)
        late = scene.broker.receive(1)
        scene.let_locks_expire()
        in_time = scene.broker.receive(2)[1:]
        assert scene.broker.complete([*late, *in_time]) == late
        assert [letter.body for letter in scene.broker.letters()] == [b"1"]

    def test_a_lock_can_be_renewed_and_a_lost_one_is_no_error(self, scene: Scene) -> None:
        scene.fill(1)
        [message] = scene.broker.receive(1)
        scene.broker.renew([message.lock_token])
        assert scene.broker.receive(1) == []
        scene.broker.renew([uuid.uuid4()])
        scene.broker.renew([])

    def test_given_back_too_late_or_twice_is_no_error(self, scene: Scene) -> None:
        scene.fill(1)
        tokens = [message.lock_token for message in scene.broker.receive(1)]
        scene.broker.give_back(tokens)
        scene.broker.give_back([*tokens, uuid.uuid4()])
        scene.broker.give_back([])

    def test_what_is_sent_arrives_in_order(self, scene: Scene) -> None:
        bodies = [str(number).encode() for number in range(200)]
        scene.broker.send(TARGET, [an_encoded(body=body) for body in bodies])
        assert scene.arrived() == bodies

    def test_of_messages_with_one_too_large_none_is_sent(self, scene: Scene) -> None:
        large = an_encoded(body=bytes(300_000))
        with pytest.raises(RejectedError, match="larger than the queue takes"):
            scene.broker.send(TARGET, [an_encoded(body=b"1"), large, an_encoded(body=b"2")])
        assert scene.arrived() == []

    def test_an_empty_queue_gives_nothing(self, scene: Scene) -> None:
        assert list(scene.broker.letters()) == []
        assert scene.broker.encoded([1]) == {}


def _with_a_char(encoded: bytes) -> bytes:
    [found] = [part for part in sections(encoded) if part.code == APPLICATION_PROPERTIES]
    letter = (string("char"), b"\x73\x00\x00\x00A")
    return encoded.replace(
        found.whole, map_section(APPLICATION_PROPERTIES, [*pairs(found.value), letter])
    )


def numbers(locked: list[Locked]) -> set[int]:
    return {message.sequence_number for message in locked}


class MemoryScene:
    def __init__(self) -> None:
        self.broker = MemoryBroker(largest=256 * 1024)

    def fill(self, count: int) -> None:
        bodies = (str(number).encode() for number in range(1, count + 1))
        self.broker.waiting = {n: an_encoded(n, body=body) for n, body in enumerate(bodies, 1)}

    def arrived(self) -> list[bytes]:
        return [decoded(message).data[0] for _, message in self.broker.sent]

    def let_locks_expire(self) -> None:
        self.broker.expire_locks()


class TestMemoryBroker(BrokerContract):
    @pytest.fixture
    def scene(self) -> Scene:
        return MemoryScene()


class EmulatorScene:
    def __init__(self, client: ServiceBusClient, *, dead_letters: bool) -> None:
        self._client = client
        self._dead_letters = dead_letters
        self.broker = ServiceBusBroker(
            client, QUEUE, dead_letters=dead_letters, patience=timedelta(seconds=1)
        )

    def fill(self, count: int) -> None:
        messages = [ServiceBusMessage(str(n).encode()) for n in range(1, count + 1)]
        with self._client.get_queue_sender(QUEUE, socket_timeout=0.05) as sender:
            sender.send_messages(messages)
        if self._dead_letters:
            with self._client.get_queue_receiver(QUEUE, socket_timeout=0.05) as receiver:
                for message in receiver.receive_messages(count, max_wait_time=5):
                    receiver.dead_letter_message(message, "why", "words")

    def put(self, encoded: bytes) -> None:
        """Put a message into the queue as it is."""
        self.broker.send(QUEUE, [encoded])

    def arrived(self) -> list[bytes]:
        with self._client.get_queue_receiver(TARGET, socket_timeout=0.05) as receiver:
            messages = receiver.receive_messages(1_000, max_wait_time=1)
            for message in messages:
                receiver.complete_message(message)
            return [b"".join(message.body) for message in messages]

    def let_locks_expire(self) -> None:
        time.sleep(LOCK_SECONDS + 0.5)

    def clear(self) -> None:
        """Leave nothing to the next test, whoever holds it."""
        while letters := list(self.broker.letters()):
            self.broker.complete(self.broker.receive(len(letters)))


@pytest.fixture(scope="class")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceBusClient]:
    queues = a_queues_file(tmp_path_factory.mktemp("q"), LockDuration=f"PT{LOCK_SECONDS}S")
    with run_folder("test") as folder:
        server = emulator(folder, queues)
        server.start()
        try:
            environ = {"BUS": str(server.facts()["connection_string"])}
            with service_bus_client(environ, "BUS") as client:
                yield client
        finally:
            server.stop()


@pytest.fixture(scope="class")
def queue(client: ServiceBusClient) -> EmulatorScene:
    return EmulatorScene(client, dead_letters=False)


@pytest.fixture(scope="class")
def dead_letters(client: ServiceBusClient) -> EmulatorScene:
    return EmulatorScene(client, dead_letters=True)


@pytest.mark.integration
class TestServiceBusBroker(BrokerContract):
    @pytest.fixture
    def scene(self, queue: EmulatorScene) -> Iterator[Scene]:
        yield queue
        queue.clear()

    def test_a_queue_of_several_pages_is_shown_and_had_whole(self, scene: Scene) -> None:
        scene.fill(600)
        shown = [letter.sequence_number for letter in scene.broker.letters()]
        assert len(shown) == 600
        assert list(scene.broker.encoded(shown)) == shown

    def test_a_message_that_the_sdk_cannot_decode_is_handed_out_like_any_other(
        self, scene: Scene, queue: EmulatorScene
    ) -> None:
        """A char, as .NET writes it: for the SDK's receiver it is an error of all messages."""
        scene.fill(1)
        queue.put(_with_a_char(an_encoded(body=b"2")))
        assert len(scene.broker.receive(2)) == 2
        assert [letter.body for letter in scene.broker.letters()] == [b"1", b"2"]

    def test_no_thread_of_the_sdk_reads_beside_us(self, scene: Scene, queue: EmulatorScene) -> None:
        """It would give messages each other's lock tokens; see `undisturbed`."""
        scene.fill(1)
        assert len(queue.broker.receive(1)) == 1
        handler = queue.broker._receiver._handler  # noqa: SLF001 - what matters is not public
        assert handler._keep_alive_thread is None  # noqa: SLF001 - as above

    def test_what_does_not_fit_into_one_batch_goes_in_several(self, scene: Scene) -> None:
        bodies = [bytes([number]) * 100_000 for number in range(6)]
        scene.broker.send(TARGET, [an_encoded(body=body) for body in bodies])
        assert scene.arrived() == bodies


@pytest.mark.integration
class TestServiceBusBrokerOnDeadLetters(BrokerContract):
    @pytest.fixture
    def scene(self, dead_letters: EmulatorScene) -> Iterator[Scene]:
        yield dead_letters
        dead_letters.clear()
