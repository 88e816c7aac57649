"""The SDKs that the matrix runs, each started once, with one client each for most tests.

Opening or closing a link takes the Python SDK half a second, so clients and queues serve one test
after the other, and links are opened and closed all at once. After a test that failed, or left
something behind, the next has a fresh queue.
"""

from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.servers import Emulator
from tests.integration.service_bus.matrix.clients import Administrator, Client, Outgoing, Place, Sdk
from tests.integration.service_bus.matrix.javascript import JavaScript
from tests.integration.service_bus.matrix.python import Python, PythonAio

NAMES = ("javascript", "python", "python-aio")

_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture(scope="session")
def sdks(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sdk]]:
    certificate = str(emulator.facts()["certificate"])
    log = tmp_path_factory.mktemp("javascript") / "log"
    started: list[Sdk] = [JavaScript(certificate, log), Python(certificate), PythonAio()]
    yield {sdk.name: sdk for sdk in started}
    for sdk in started:
        sdk.end()


@pytest.fixture(scope="session")
def clients(sdks: dict[str, Sdk], emulator: Emulator) -> Iterator[dict[str, Client]]:
    opened = {name: sdk.client(emulator.connection_string) for name, sdk in sdks.items()}
    yield opened
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda client: client.close(), opened.values()))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sdk(name: str, sdks: dict[str, Sdk]) -> Sdk:
    return sdks[name]


@pytest.fixture
def administrator(sdk: Sdk) -> Administrator:
    assert isinstance(sdk, Administrator)
    return sdk


@pytest.fixture
def client(name: str, clients: dict[str, Client]) -> Client:
    return clients[name]


@pytest.fixture(scope="session")
def _queues_left_empty() -> dict[str, str]:
    return {}


def _open_links(clients: Collection[Client], place: Place) -> None:
    def schedule_and_cancel(client: Client) -> None:
        due = datetime.now(UTC) + timedelta(hours=1)
        for number in client.schedule(place.queue, [Outgoing()], due):
            client.cancel(place.queue, number)

    places = (place, place._replace(dead=True), place._replace(deletes=True))
    with ThreadPoolExecutor(max_workers=12) as pool:
        opening: list[Future[object]] = []
        for client in clients:
            opening += [pool.submit(client.peek, one) for one in places]
            opening.append(pool.submit(schedule_and_cancel, client))
    for link in opening:
        link.result()


@pytest.fixture
def empty_place(
    request: pytest.FixtureRequest,
    clients: dict[str, Client],
    fresh_queue: Callable[[str], str],
    _queues_left_empty: dict[str, str],
) -> Iterator[Callable[[str], Place]]:
    taken: dict[str, Place] = {}

    def take(kind: str) -> Place:
        if kind in _queues_left_empty:
            taken[kind] = Place(_queues_left_empty.pop(kind))
        else:
            taken[kind] = Place(fresh_queue(kind))
            _open_links(clients.values(), taken[kind])
        return taken[kind]

    yield take
    client = clients["javascript"]  # the quickest
    for kind, place in taken.items():
        left = [*client.peek(place), *client.peek(place._replace(dead=True))]
        if request.node.stash.get(_PASSED, False) and not left:
            _queues_left_empty[kind] = place.queue


@pytest.fixture
def place(empty_place: Callable[[str], Place]) -> Place:
    return empty_place("plain")


@pytest.fixture
def hasty(empty_place: Callable[[str], Place]) -> Place:
    """A queue whose locks last half a second."""
    return empty_place("hasty")
