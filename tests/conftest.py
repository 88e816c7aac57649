"""What several kinds of tests share. Servers start when the first test asks."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, settings

from devstack.azurite import Azurite
from devstack.postgres import Postgres
from devstack.stack import QUEUES, Announced, emulator, run_folder

# How long an example takes says something about the machine, which others may use too.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


class _Server(Protocol):
    def start(self) -> object: ...

    def stop(self) -> None: ...


def _running[S: _Server](make: Callable[[Path], S]) -> Iterator[S]:
    with run_folder("test") as folder:
        server = make(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    yield from _running(Postgres)


@pytest.fixture(scope="module")
def azurite() -> Iterator[Azurite]:
    """A storage account that no other module has written to."""
    yield from _running(Azurite)


@pytest.fixture(scope="session")
def service_bus() -> Iterator[Announced]:
    """The emulator with the queues of the app."""
    yield from _running(lambda folder: emulator(folder, QUEUES))


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


#: Whoever gets one of these last would be alone with it for minutes.
_LONGEST = ("test_balance.py", "test_commands.py", "test_durable_detection.py", "test_probe.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest; the order within a file stays."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)
