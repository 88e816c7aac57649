"""What becomes of a change, on the whole stack: one test a promise of docs/delivery.md.

All tests share one stack, and each has records of its own: a test knows its messages by job and
source key. Waits are for states, with a deadline.
"""

import hashlib
import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from composition import Composition
from devstack.disasters import wait_for
from models.queue_message import QueueMessage
from services.azure_access import blob_client, service_bus_client
from services.payloads import PAYLOADS, PayloadService, reference_in
from tests.builders import a_message
from tests.integration.outcomes_scene import (
    ATTEMPTS_OF_LOW,
    REQUESTS,
    THREADS,
    UNIT,
    Scene,
    body_of,
    facts_of,
    opened,
    running_scene,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with running_scene() as running:
        yield running


def test_sb7_a_target_that_is_down_is_tried_ten_times_each_n_squared_units_after_the_last(
    scene: Scene,
) -> None:
    scene.erp.execute("ALTER DATABASE outage ALLOW_CONNECTIONS false")
    scene.crm.execute("INSERT INTO outage VALUES ('1')")
    message = scene.wait_for_message("sbqhigh", "outage", "1", dead=True, seconds=60)
    scene.erp.execute("ALTER DATABASE outage ALLOW_CONNECTIONS true")
    log = (scene.stack.folder / "postgres.log").read_text("utf-8")
    found = re.findall(r'(?m)^(\S+ \S+) UTC \[\d+\] FATAL: +database "outage" is not curr', log)
    waits = [after - before for before, after in pairwise(map(datetime.fromisoformat, found))]
    assert len(found) == 10
    for number, waited in enumerate(waits, start=2):
        assert waited >= UNIT * number**2, (number, waits)
    assert sum(waits, start=timedelta()) < UNIT * 384 * 1.6, waits
    facts = facts_of(message)
    assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert (facts["ErrorType"], facts["ErrorDeliveryCount"]) == ("UnavailableError", 10)
    # 4, 9, 16 and 25 units were waited inside; 36, 49, 64, 81 and 100 as scheduled copies.
    # The broker saw the last of the copies once; whoever sends it again begins anew.
    assert (message.delivery_count or 0) <= 1
    assert (facts["CarriedAttempts"], facts["Postponements"]) == (0, 0)
    scene.crm.execute("INSERT INTO outage VALUES ('2')")
    scene.wait_until_done("sbqhigh", "outage")
    with opened(scene.stack, "outage") as outage:
        assert outage.execute("SELECT id FROM outage").fetchall() == [("2",)]


def test_sb12_a_record_that_ends_the_worker_each_time_takes_no_other_with_it(scene: Scene) -> None:
    good = {f"{number:02}" for number in range(20)}
    with opened(scene.stack, "erp") as other, other.transaction(force_rollback=True):
        other.execute("LOCK TABLE poison IN SHARE MODE")
        with scene.crm.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO poison VALUES (%s)", [("P",), *((id_,) for id_ in good)]
            )
        # The first end meets it and all that run beside it.
        caught = wait_for(lambda: _all(scene.backends("poison", "Lock"), THREADS))
        scene.kill_worker(caught)
    ends = 1

    def probe() -> list[Any] | None:
        nonlocal ends
        if backends := scene.backends("poison", "Timeout"):
            scene.kill_worker(backends)
            ends += 1
        return scene.peeked("sbqlow", "poison", dead=True) or None

    wait_for(probe, 60)
    scene.wait_until_done("sbqlow", "poison")
    [message] = scene.peeked("sbqlow", "poison", dead=True)
    assert (ends, scene.ids("poison")) == (ATTEMPTS_OF_LOW, good)
    assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
    facts = facts_of(message)
    assert (facts["SourceKey"], facts.get("ErrorType")) == ("P", "AbortedError")
    assert facts["ErrorMessage"].startswith(f"attempt {ATTEMPTS_OF_LOW} ended without a word")


def _all(found: list[int], count: int) -> list[int] | None:
    return found if len(found) >= count else None


def test_an_order_whose_customer_is_missing_waits_in_the_transitive_queue_as_it_was(
    scene: Scene,
) -> None:
    scene.bring_customers(1, 2, 3)
    scene.erp.execute("DELETE FROM business_partner WHERE partner_number = 'D000002'")
    for customer in (1, 2, 3):
        scene.order(f"T{customer}", f"D{customer:06}")
    scene.wait_for_order("T1")
    scene.wait_for_order("T3")
    message = scene.wait_for_message("sbqtransitivenormal", "orders-to-erp", "T2")
    facts = facts_of(message)
    assert (facts["OriginalQueue"], facts["ErrorType"]) == ("sbqnormal", "TransitiveError")
    assert "foreign key" in facts["ErrorMessage"]
    # The message's id is the hash of the body that was detected.
    assert message.message_id == hashlib.sha256(body_of(message)).hexdigest()
    content = QueueMessage.from_body(body_of(message))
    assert content.fields["partner_number"] == "D000002"
    scene.wait_until_done("sbqnormal", "orders-to-erp")


def test_a_large_message_in_the_transitive_queue_can_still_be_read(scene: Scene) -> None:
    scene.bring_customers(4)
    scene.erp.execute("DELETE FROM business_partner WHERE partner_number = 'D000004'")
    scene.order("T4", "D000004", note="ü" * 120_000)
    message = scene.wait_for_message("sbqtransitivenormal", "orders-to-erp", "T4")
    assert reference_in(body_of(message)) == message.message_id
    with blob_client(scene.stack.app_settings()) as blobs:
        payload = PayloadService(blobs.get_container_client(PAYLOADS)).check_out(body_of(message))
    assert hashlib.sha256(payload).hexdigest() == message.message_id
    assert QueueMessage.from_body(payload).fields["note"] == "ü" * 120_000


def test_an_outdated_change_is_set_aside_and_the_target_left_alone(scene: Scene) -> None:
    scene.bring_customers(5, 6)
    scene.erp.execute(
        "UPDATE business_partner SET name = 'later', crm_modified_at = '2999-01-01' "
        "WHERE partner_number = 'D000005'"
    )
    scene.crm.execute("UPDATE customer SET name = 'now' WHERE customer_number >= 'D000005'")
    message = scene.wait_for_message("sbqignored", "customers-to-erp", "D000005")
    scene.wait_until_done("sbqnormal", "customers-to-erp")
    facts = facts_of(message)
    assert (facts["OriginalQueue"], facts["ErrorType"]) == ("sbqnormal", "OutdatedError")
    assert "business_partner" in facts["ErrorMessage"]
    assert message.message_id == hashlib.sha256(body_of(message)).hexdigest()
    names = "SELECT name FROM business_partner WHERE partner_number >= 'D000005' ORDER BY 1"
    assert scene.erp.execute(names).fetchall() == [("later",), ("now",)]


@pytest.mark.parametrize("table", REQUESTS)
def test_a_number_of_the_target_comes_back_once_and_then_all_is_quiet(
    scene: Scene, table: str
) -> None:
    scene.crm.execute(f"INSERT INTO {table} SELECT n::text, 't' FROM generate_series(1, 3) n")  # noqa: S608 - our own names
    numbers = f"SELECT id, number FROM {table} ORDER BY id"  # noqa: S608 - as above
    written = f"SELECT id, count(*) FROM written WHERE entity = '{table}' GROUP BY id ORDER BY id"  # noqa: S608 - as above
    # In both: made, and written once more with the number.
    twice = [("1", 2), ("2", 2), ("3", 2)]

    def are_there() -> bool:
        refused = map(facts_of, scene.peeked("sbqnormal", f"{table}-number"))
        assert [facts for facts in refused if "ErrorMessage" in facts] == []
        writes = scene.crm.execute(written).fetchall()
        assert max(count for _, count in writes) <= 2, "responses go round"
        return all(number for _, number in scene.crm.execute(numbers))

    wait_for(are_there)
    # Each response is a change as well: it is read once, and after that there is nothing to read.
    for _ in range(2):
        scene.wait_until_done("sbqnormal", table)
    assert scene.crm.execute(numbers).fetchall() == scene.erp.execute(numbers).fetchall()
    assert scene.crm.execute(written).fetchall() == twice
    assert scene.erp.execute(written).fetchall() == twice


def test_an_action_is_called_once_a_change_with_typed_arguments(scene: Scene) -> None:
    bookings: list[tuple[Any, ...]] = [
        ("1", Decimal("0.10"), date(1969, 12, 31), True, 2**53 + 1, "O'Brien"),
        ("2", Decimal("-7.50"), date(2026, 2, 28), False, 0, None),
    ]
    with scene.crm.cursor() as cursor:
        cursor.executemany("INSERT INTO booking VALUES (%s, %s, %s, %s, %s, %s)", bookings)
    scene.wait_until_done("sbqnormal", "booking")
    scene.crm.execute("UPDATE booking SET urgent = true WHERE id = '2'")
    scene.wait_until_done("sbqnormal", "booking")
    changed = (*bookings[1][:3], True, *bookings[1][4:])
    assert scene.erp.execute("SELECT * FROM taken ORDER BY id, urgent").fetchall() == [
        *bookings,
        changed,
    ]


def test_id11_a_deletion_of_what_is_gone_already_completes(scene: Scene) -> None:
    scene.bring_customers(7)
    scene.order("G1", "D000007")
    scene.wait_for_order("G1")
    scene.erp.execute("DELETE FROM sales_order WHERE document_number = 'G1'")
    scene.crm.execute("DELETE FROM customer_order WHERE order_number = 'G1'")
    [(deleted,)] = scene.crm.execute(
        "SELECT deleted_at FROM deleted_order WHERE order_number = 'G1'"
    )
    scene.wait_until_done("sbqnormal", "orders-to-erp")
    watermarks = Composition(scene.stack.app_settings()).watermarks
    reached = watermarks.get_watermark_by_job_name("orders-to-erp").watermark
    assert reached is not None
    assert datetime.fromisoformat(reached) == deleted, "the deletion was not read"
    assert scene.peeked("sbqnormal", "orders-to-erp", dead=True) == []


def test_what_cannot_be_read_is_dead_lettered_at_once_and_holds_up_nobody(scene: Scene) -> None:
    good = a_message(
        job_name="stall",
        keys={"id": "good"},
        fields={"modified_at": "2026-11-30T12:00:00+00:00"},
    ).to_body()
    later = good.replace(b'"schemaVersion":1', b'"schemaVersion":2')
    bodies = {"garbage": b"\xffno JSON", "empty": b"", "later version": later, "good": good}
    with (
        service_bus_client(scene.stack.app_settings()) as client,
        client.get_queue_sender("sbqnormal") as sender,
    ):
        for key, body in bodies.items():
            properties: dict[str | bytes, Any] = {"JobName": "unreadable", "SourceKey": key}
            sender.send_messages(ServiceBusMessage(body, application_properties=properties))
    wait_for(lambda: "good" in scene.ids("stall"))
    for key in ("garbage", "empty", "later version"):
        message = scene.wait_for_message("sbqnormal", "unreadable", key, dead=True)
        facts = facts_of(message)
        assert message.dead_letter_reason == "unreadable"
        assert (facts["ErrorType"], facts["ErrorDeliveryCount"]) == ("UnreadableError", 1)
        assert body_of(message) == bodies[key]


def test_a_lock_that_is_lost_costs_nothing_but_a_repetition(scene: Scene) -> None:
    ids = {f"L{number:02}" for number in range(40)}
    host = scene.stack.host.facts()
    processes = [int(host["pid"]), int(host["worker_pid"])]
    scene.erp.execute("TRUNCATE written")
    with opened(scene.stack, "erp") as other, other.transaction(force_rollback=True):
        other.execute("LOCK TABLE stall IN SHARE MODE")
        with scene.crm.cursor() as cursor:
            cursor.executemany("INSERT INTO stall VALUES (%s)", [(id_,) for id_ in sorted(ids)])
        wait_for(lambda: _all(scene.backends("stall", "Lock"), THREADS))
        try:
            # The host renews for a worker that stands still; so both do.
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            _see_a_lost_lock(scene)
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)
    wait_for(lambda: ids <= scene.ids("stall"))
    scene.wait_until_done("sbqnormal", "stall")
    assert scene.peeked("sbqnormal", "stall", dead=True) == []
    # Twice at most what was in the middle of being written: nobody begins with a lost lock.
    [(writes,)] = scene.erp.execute("SELECT count(*) FROM written WHERE id LIKE 'L%'")
    assert writes <= len(ids) + THREADS


def _see_a_lost_lock(scene: Scene) -> None:
    """Receive until the queue hands out a message that somebody else had before."""
    with (
        service_bus_client(scene.stack.app_settings()) as client,
        client.get_queue_receiver("sbqnormal") as receiver,
    ):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for message in receiver.receive_messages(40, max_wait_time=1):
                if message.delivery_count:
                    return
    pytest.fail("no lock was lost")


def test_health_over_http_asks_for_a_key_and_shows_all_parts(scene: Scene) -> None:
    keys = json.loads((scene.stack.folder / "functions_host" / "keys.json").read_text("utf-8"))
    key = {"x-functions-key": keys["functions"]["GetHealth"]["default"]}
    # It is not before `GetChanges` has run once.
    wait_for(lambda: _health(scene, key)[1]["status"] == "healthy")
    status, answer = _health(scene, key)
    assert (status, answer["status"]) == (200, "healthy"), answer
    assert set(answer["parts"]["queueDepth"]["queues"]) >= {"sbqnormal", "sbqignored"}
    assert {"connection crm", "connection erp", "getChanges"} <= set(answer["parts"])
    assert _health(scene, {})[0] == 401


def _health(scene: Scene, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(  # noqa: S310 - our own host
        f"{scene.stack.host.facts()['url']}/api/Health", headers=headers
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}
