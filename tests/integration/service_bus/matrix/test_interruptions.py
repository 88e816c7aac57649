"""Links that idle and an emulator that dies: every SDK finds its way back."""

import gc
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import NamedTuple

import pytest
from proton.utils import LinkDetached

from tests.integration.servers import Emulator
from tests.integration.service_bus.matrix.clients import (
    Client,
    Meaning,
    Outgoing,
    Place,
    Sdk,
    Seen,
    ToldError,
)
from tests.integration.service_bus.matrix.conftest import NAMES
from tests.integration.service_bus.raw import connected

#: The Python SDKs leave their sockets open when the other side dies.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

QUEUES: dict[str, dict[str, object]] = {name: {"LockDuration": "PT30S"} for name in NAMES}


class Held(NamedTuple):
    """A client, and the message that it had locked when it was interrupted."""

    client: Client
    message: Seen


def held(sdks: dict[str, Sdk], emulator: Emulator) -> dict[str, Held]:
    def hold(sdk: Sdk) -> Held:
        client = sdk.client(emulator.connection_string)
        client.send(sdk.name, Outgoing(body="held"))
        assert client.peek(Place(sdk.name, dead=True)) == []
        return Held(client, one(client, sdk.name))

    with ThreadPoolExecutor() as pool:
        return dict(zip(sdks, pool.map(hold, sdks.values()), strict=True))


def one(client: Client, queue: str) -> Seen:
    (message,) = client.receive(Place(queue))
    return message


def insist[T](act: Callable[[], T]) -> T:
    """Do it; an SDK may say once that its link or connection is gone."""
    with suppress(ToldError):
        return act()
    return act()


def goes_on(client: Client, queue: str) -> None:
    # All at once, because opening a link takes the Python SDK half a second.
    with ThreadPoolExecutor() as pool:
        pool.submit(insist, lambda: client.send(queue, Outgoing(body="late")))
        received = pool.submit(insist, lambda: one(client, queue))
        peeked = pool.submit(insist, lambda: client.peek(Place(queue, dead=True)))
    assert received.result().body == "late"
    assert peeked.result() == []
    client.complete(received.result())
    assert client.peek(Place(queue)) == []


@contextmanager
def closed_after(clients: dict[str, Held], emulator: Emulator) -> Iterator[dict[str, Held]]:
    yield clients
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda held: held.client.close(), clients.values()))
    assert emulator.end() == 0, emulator.log_text()
    gc.collect()


@pytest.fixture(scope="module")
def idled(
    tmp_path_factory: pytest.TempPathFactory, sdks: dict[str, Sdk]
) -> Iterator[dict[str, Held]]:
    """Clients whose links were all detached because they idled."""
    emulator = Emulator(tmp_path_factory.mktemp("idle"), QUEUES, "--idle-detach", "1")
    emulator.start()
    clients = held(sdks, emulator)
    # What is attached last is detached last.
    with connected(emulator, "python") as connection:
        link = connection.create_receiver("python", credit=0).link
        with pytest.raises(LinkDetached):
            connection.wait(lambda: link.state & link.REMOTE_CLOSED, timeout=30)
    with closed_after(clients, emulator):
        yield clients


@pytest.fixture(scope="module")
def restarted(
    tmp_path_factory: pytest.TempPathFactory, sdks: dict[str, Sdk]
) -> Iterator[dict[str, Held]]:
    """Clients whose emulator was killed and started again."""
    emulator = Emulator(tmp_path_factory.mktemp("restarted"), QUEUES)
    emulator.start()
    clients = held(sdks, emulator)
    emulator.end(signal.SIGKILL)
    emulator.start()
    with closed_after(clients, emulator):
        yield clients


def test_after_idling_what_was_locked_is_settled_and_all_goes_on(
    name: str, idled: dict[str, Held]
) -> None:
    client, message = idled[name]
    client.complete(message)
    goes_on(client, name)


def test_after_a_restart_what_was_locked_comes_again_and_all_goes_on(
    name: str, restarted: dict[str, Held]
) -> None:
    client, message = restarted[name]
    with pytest.raises(ToldError) as told:
        client.complete(message)
    assert told.value.meaning in {Meaning.CUT_OFF, Meaning.LOCK_LOST}
    again = insist(lambda: one(client, name))
    assert (again.body, again.delivery_count) == ("held", 0)
    client.complete(again)
    goes_on(client, name)
