"""What several kinds of tests share. Servers start once a session, when the first test asks."""

import socket
from collections.abc import Iterator

import pytest

from devstack.postgres import Postgres
from devstack.stack import QUEUES, Announced, emulator, run_folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with run_folder("test") as folder:
        server = Postgres(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def service_bus() -> Iterator[Announced]:
    """The emulator with the queues of the app."""
    with run_folder("test") as folder:
        server = emulator(folder, QUEUES)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
