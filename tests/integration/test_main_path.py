"""One table to another, through the real Functions worker, the SDKs and real servers."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue

from composition import Composition
from devstack.demo.databases import Databases
from devstack.demo.scenario import demo_stack, wait_until_equal
from devstack.disasters import kill_emulator, kill_host, kill_worker, wait_for
from devstack.stack import Stack, run_folder
from models.watermark import WatermarkType, WatermarkValue
from services.azure_access import service_bus_client
from services.detection.watermarks import StoredWatermark
from tests.builders import a_queues_file

CHANGES = 2_000

pytestmark = pytest.mark.integration


@pytest.fixture
def scene() -> Iterator[tuple[Stack, Databases]]:
    with (
        run_folder("test") as folder,
        # So long a killed host holds its messages.
        demo_stack(folder, queues=a_queues_file(folder, LockDuration="PT5S")) as (stack, databases),
    ):
        stack.settings = {**stack.settings, "SYNC_BACKOFF_UNIT_MS": "10"}
        yield stack, databases


def test_inserts_and_updates_reach_the_target_value_by_value(
    scene: tuple[Stack, Databases],
) -> None:
    stack, databases = scene
    databases.insert_customers(1, 500)
    stack.host.start()
    wait_until_equal(databases, stack, seconds=60)
    databases.update_customers(50)
    databases.insert_customers(501, 50)
    wait_until_equal(databases, stack, seconds=60)
    assert databases.count_partners() == 550


def test_the_watermark_moves_with_what_was_sent(scene: tuple[Stack, Databases]) -> None:
    stack, databases = scene
    databases.insert_customers(1, 20)
    stack.host.start()
    wait_until_equal(databases, stack, seconds=60)
    first = wait_for(lambda: _watermark(stack).watermark, seconds=60)
    databases.insert_customers(21, 1)
    wait_until_equal(databases, stack, seconds=60)
    wait_for(lambda: _watermark(stack).watermark != first, seconds=60)
    second = _watermark(stack).watermark or ""
    assert WatermarkValue(WatermarkType.DATETIME, first).advance(second).text == second
    assert _watermark(stack).last_cron_run is not None


def test_a_refused_record_ends_in_the_dead_letter_queue_with_its_reason(
    scene: tuple[Stack, Databases],
) -> None:
    stack, databases = scene
    with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
        erp.execute(
            "ALTER TABLE business_partner ADD CONSTRAINT no3 CHECK (partner_number <> 'D000003')"
        )
    databases.insert_customers(1, 10)
    stack.host.start()
    message = wait_for(lambda: _peek_dead_letter(stack), seconds=60)
    assert databases.count_partners() == 9
    assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
    properties: dict[Any, Any] = message.application_properties or {}
    assert properties[b"JobName"] == b"customers-to-erp"
    assert properties[b"SourceKey"] == b"D000003"
    assert b'violates check constraint "no3"' in properties[b"ErrorMessage"]
    assert properties[b"ErrorType"] == b"RejectedError"
    assert properties[b"ErrorDeliveryCount"] == 10


def test_sb2_a_record_larger_than_a_message_arrives_with_its_neighbours(
    scene: tuple[Stack, Databases],
) -> None:
    stack, databases = scene
    databases.insert_customers(1, 200)
    with psycopg.connect(stack.postgres.dsn("crm"), autocommit=True) as crm:
        crm.execute(
            "UPDATE customer SET name = repeat('ü', 150000) WHERE customer_number = 'D000057'"
        )
    stack.host.start()
    wait_until_equal(databases, stack, seconds=60)
    assert databases.count_partners() == 200


def test_execute_job_answers_over_http(scene: tuple[Stack, Databases]) -> None:
    stack, databases = scene
    databases.insert_customers(1, 30)
    stack.settings = {**stack.settings, "SYNC_GET_CHANGES_SCHEDULE": "0 0 0 1 1 *"}
    stack.host.start()
    job = "customers-to-erp"
    status, answer = _execute_job(stack, {"job": job, "dryRun": True})
    assert (status, answer["detected"], answer["sent"]) == (200, 30, 0)
    assert len(answer["messages"]) == 20
    condition = {"field": "customer_number", "operator": "equals", "value": "D000007"}
    status, answer = _execute_job(stack, {"job": job, "filter": condition})
    assert (status, answer["sent"]) == (200, 1)
    status, answer = _execute_job(stack, {"job": job})
    assert (status, answer["sent"], answer["finished"]) == (200, 30, True)
    wait_until_equal(databases, stack, seconds=60)
    assert _execute_job(stack, {"job": job})[1]["sent"] == 0
    assert _execute_job(stack, {"job": "nobody"})[0] == 404
    assert _execute_job(stack, {"jobs": job})[0] == 400
    assert _execute_job(stack, {"job": job}, key="wrong")[0] == 401
    assert _watermark(stack).last_cron_run is None


def _execute_job(
    stack: Stack, body: dict[str, Any], key: str | None = None
) -> tuple[int, dict[str, Any]]:
    keys = json.loads((stack.folder / "functions_host" / "keys.json").read_text("utf-8"))
    request = urllib.request.Request(  # noqa: S310 - our own host
        f"{stack.host.facts()['url']}/api/ExecuteJob",
        data=json.dumps(body).encode(),
        headers={"x-functions-key": key or keys["functions"]["ExecuteJob"]["default"]},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            is_ours = error.headers.get_content_type() == "application/json"
            return error.code, json.load(error) if is_ours else {}


@pytest.mark.parametrize("disaster", [kill_emulator, kill_worker, kill_host])
def test_a_kill_in_the_middle_of_2000_changes_loses_none(
    scene: tuple[Stack, Databases], disaster: Callable[[Stack], None]
) -> None:
    stack, databases = scene
    databases.insert_customers(1, CHANGES // 2)
    stack.host.start()
    wait_for(lambda: databases.count_partners() >= 50, seconds=60)
    disaster(stack)
    assert databases.count_partners() < CHANGES
    # A second wave, so that the first kill after it meets detection and processing at once.
    databases.insert_customers(CHANGES // 2 + 1, CHANGES // 2)
    wait_for(lambda: databases.count_partners() >= CHANGES // 2 + 50, seconds=60)
    disaster(stack)
    wait_until_equal(databases, stack, seconds=120)
    assert databases.count_partners() == CHANGES
    assert _peek_dead_letter(stack) is None


def _peek_dead_letter(stack: Stack) -> ServiceBusReceivedMessage | None:
    client = service_bus_client(stack.app_settings())
    with (
        client,
        client.get_queue_receiver("sbqnormal", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as queue,
    ):
        messages = queue.peek_messages(1)
    return messages[0] if messages else None


def _watermark(stack: Stack) -> StoredWatermark:
    watermarks = Composition(stack.app_settings()).watermarks
    return watermarks.get_watermark_by_job_name("customers-to-erp")
