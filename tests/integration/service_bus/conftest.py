"""One emulator for most tests; each test takes queues that nobody has used."""

import gc
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from tests.integration.servers import Emulator

KINDS: dict[str, dict[str, object]] = {
    "plain": {"LockDuration": "PT30S", "MaxDeliveryCount": 3},
    "hasty": {"LockDuration": "PT0.5S", "MaxDeliveryCount": 3},
    "expiring": {
        "DefaultMessageTimeToLive": "PT0.4S",
        "DeadLetteringOnMessageExpiration": True,
    },
    "dropping": {"DefaultMessageTimeToLive": "PT0.4S"},
    "unique": {
        "RequiresDuplicateDetection": True,
        "DuplicateDetectionHistoryTimeWindow": "PT1S",
    },
}
EACH = 120


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    queues = {f"{kind}-{i}": KINDS[kind] for kind in KINDS for i in range(EACH)}
    running = Emulator(tmp_path_factory.mktemp("emulator"), queues)
    running.start()
    yield running
    assert running.end() == 0, running.log_text()


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return iter(count())


@pytest.fixture
def fresh_queue(_numbers: Iterator[int]) -> Callable[[str], str]:
    def next_queue(kind: str) -> str:
        number = next(_numbers)
        assert number < EACH, "declare more queues"
        return f"{kind}-{number}"

    return next_queue


@pytest.fixture
def queue(fresh_queue: Callable[[str], str]) -> str:
    return fresh_queue("plain")


@pytest.fixture
def client(emulator: Emulator) -> Iterator[ServiceBusClient]:
    with emulator.client() as opened:
        yield opened


@pytest.fixture
def sender(client: ServiceBusClient, queue: str) -> Iterator[ServiceBusSender]:
    with client.get_queue_sender(queue) as opened:
        yield opened


@pytest.fixture
def receiver(client: ServiceBusClient, queue: str) -> Iterator[ServiceBusReceiver]:
    with client.get_queue_receiver(queue, max_wait_time=2) as opened:
        yield opened


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Emulator]]:
    """Start emulators of a test's own, and end them with it."""
    running: list[Emulator] = []

    def start(queues: dict[str, dict[str, object]], *options: str) -> Emulator:
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(Emulator(folder, queues, *options))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()
    # What a killed emulator's clients leave behind belongs to this test, not to a later one.
    gc.collect()
