"""The administration client reads queues and counts over HTTPS."""

import re
import ssl
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.integration.servers import KEY, Emulator
from tests.integration.service_bus.conftest import EACH, KINDS
from tests.integration.service_bus.raw import token


def opened(emulator: Emulator, key: str = KEY) -> ServiceBusAdministrationClient:
    string = str(emulator.facts()["admin_connection_string"]).replace(KEY, key)
    return ServiceBusAdministrationClient.from_connection_string(
        string, connection_verify=emulator.facts()["certificate"], retry_total=0
    )


@pytest.fixture
def administration(emulator: Emulator) -> Iterator[ServiceBusAdministrationClient]:
    with opened(emulator) as client:
        yield client


def test_a_queues_properties_are_those_of_the_configuration(
    administration: ServiceBusAdministrationClient,
) -> None:
    hasty = administration.get_queue("hasty-0")
    assert (hasty.lock_duration, hasty.max_delivery_count) == (timedelta(seconds=0.5), 3)
    expiring = administration.get_queue("expiring-0")
    assert expiring.default_message_time_to_live == timedelta(seconds=0.4)
    assert expiring.dead_lettering_on_message_expiration
    unique = administration.get_queue("unique-0")
    assert unique.requires_duplicate_detection
    assert unique.duplicate_detection_history_time_window == timedelta(seconds=1)


def test_the_times_that_the_service_always_gives_say_when_the_emulator_started(
    administration: ServiceBusAdministrationClient,
) -> None:
    found = administration.get_queue_runtime_properties("plain-0")
    assert found.created_at_utc is not None
    assert timedelta(0) < datetime.now(UTC) - found.created_at_utc < timedelta(hours=1)
    assert found.created_at_utc == found.updated_at_utc == found.accessed_at_utc


def read(emulator: Emulator, path: str) -> str:
    context = ssl.create_default_context(cafile=str(emulator.facts()["certificate"]))
    url = f"https://127.0.0.1:{emulator.facts()['admin_port']}/{path}"
    request = urllib.request.Request(url, headers={"Authorization": token(emulator, "")})
    with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310 - https, as written above
        return str(answer.read().decode())


def test_the_counts_declare_their_own_prefix(emulator: Emulator) -> None:
    text = read(emulator, "plain-0")
    assert re.search(r"<CountDetails xmlns:(\w+)='[^']+/servicebus'><\1:ActiveMessageCount>", text)


def test_an_entry_of_a_list_has_its_own_address(emulator: Emulator) -> None:
    text = read(emulator, "$Resources/queues?$skip=1&$top=2")
    address = f"https://127.0.0.1:{emulator.facts()['admin_port']}"
    assert re.findall(r"<entry [^>]*><id>([^<]*)</id>", text) == [
        f"{address}/plain-1",
        f"{address}/plain-2",
    ]


def test_the_namespace_says_since_when_it_is_there(emulator: Emulator) -> None:
    (created,) = re.findall(r"<CreatedTime>([^<]+)</CreatedTime>", read(emulator, "$namespaceinfo"))
    assert timedelta(0) < datetime.now(UTC) - datetime.fromisoformat(created) < timedelta(hours=1)


def test_run_time_counts_are_listed_too(administration: ServiceBusAdministrationClient) -> None:
    names = [counts.name for counts in administration.list_queues_runtime_properties()]
    assert names == [f"{kind}-{number}" for kind in KINDS for number in range(EACH)]


def test_an_unknown_queue_is_not_found(administration: ServiceBusAdministrationClient) -> None:
    with pytest.raises(ResourceNotFoundError):
        administration.get_queue("nowhere")


def test_what_would_change_something_is_refused_by_name(
    administration: ServiceBusAdministrationClient,
) -> None:
    with pytest.raises(HttpResponseError, match="PUT /new is not implemented"):
        administration.create_queue("new")
    with pytest.raises(HttpResponseError, match="DELETE /plain-0 is not implemented"):
        administration.delete_queue("plain-0")
    with pytest.raises(HttpResponseError, match=r"GET /\$Resources/topics is not implemented"):
        list(administration.list_topics())


def test_a_wrong_key_is_refused(emulator: Emulator) -> None:
    with opened(emulator, "another-key") as client, pytest.raises(ClientAuthenticationError):
        client.get_queue("plain-0")


def test_the_certificate_stands_up_to_strict_checking(emulator: Emulator) -> None:
    context = ssl.create_default_context(cafile=str(emulator.facts()["certificate"]))
    for host in ("127.0.0.1", "localhost"):
        url = f"https://{host}:{emulator.facts()['admin_port']}/plain-0"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, context=context, timeout=5)
