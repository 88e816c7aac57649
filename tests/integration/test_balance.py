"""Kills at random points: every change still ends in exactly one of the places where it may.

Detected = succeeded + ignored + transitive + dead-lettered, once nothing is queued any more.
Balanced is the last change of each record; earlier ones may have been overwritten by it. What came
twice is counted apart.
"""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import psycopg
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue

from composition import Composition
from devstack.demo.databases import Databases
from devstack.demo.scenario import demo_stack
from devstack.processes import kill
from devstack.stack import Stack, run_folder
from models.queue_message import QueueMessage
from models.queues import IGNORED_QUEUE, PROCESSING_QUEUES, TRANSITIVE_QUEUES
from services.azure_access import service_bus_client
from tests.builders import a_queues_file

_LOGGER = logging.getLogger(__name__)

pytestmark = pytest.mark.integration

SEED = 20261130
CUSTOMERS, ORDERS = 300, 600

#: Refused: the target's own rule. Outdated: the target was written by somebody later. Orders of the
#: refused customers find no customer. All writes are noted, and none may go back in time.
_RULES = """
ALTER TABLE business_partner ADD CONSTRAINT refused CHECK (partner_number NOT LIKE '%7');
ALTER TABLE sales_order ADD FOREIGN KEY (partner_number) REFERENCES business_partner;
INSERT INTO business_partner (partner_number, name, city, credit_limit, partner_since, is_active,
                              crm_modified_at)
    SELECT 'D' || to_char(10 * n, 'FM000000'), 'written later', 'Ulm', 0, '2000-01-01', true,
           '2999-01-01'
    FROM generate_series(1, 10) n;
CREATE TABLE written (entity text, key text, change timestamptz, before timestamptz);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO written VALUES (TG_TABLE_NAME, to_jsonb(NEW) ->> TG_ARGV[0], NEW.crm_modified_at,
                                CASE TG_OP WHEN 'UPDATE' THEN OLD.crm_modified_at END);
    RETURN NEW; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON business_partner
    FOR EACH ROW EXECUTE FUNCTION note('partner_number');
CREATE TRIGGER note AFTER INSERT OR UPDATE ON sales_order
    FOR EACH ROW EXECUTE FUNCTION note('document_number');
"""

_JOBS = {
    "customers-to-erp": (
        "SELECT customer_number, modified_at FROM customer",
        "SELECT partner_number, crm_modified_at FROM business_partner",
    ),
    "orders-to-erp": (
        "SELECT order_number, modified_at FROM customer_order",
        "SELECT document_number, crm_modified_at FROM sales_order",
    ),
}

#: A job, a record and the time of its change.
Change = tuple[str, str, str]


@dataclass
class Places:
    """Where changes were found, and how many messages said so."""

    succeeded: set[Change]
    ignored: Counter[Change]
    transitive: Counter[Change]
    dead: Counter[Change]
    queued: Counter[Change]

    def of(self, change: Change) -> list[str]:
        return [name for name, found in vars(self).items() if change in found]


@pytest.fixture
def scene() -> Iterator[tuple[Stack, Databases]]:
    with (
        run_folder("test") as folder,
        demo_stack(folder, queues=a_queues_file(folder, LockDuration="PT5S")) as (stack, databases),
    ):
        with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
            erp.execute(_RULES)
        stack.settings = {**stack.settings, "SYNC_BACKOFF_UNIT_MS": "5"}
        yield stack, databases


def test_every_change_survives_kills_at_random_points_and_is_in_one_place(
    scene: tuple[Stack, Databases],
) -> None:
    stack, databases = scene
    chance = random.Random(SEED)  # noqa: S311 - not a secret
    databases.insert_customers(1, CUSTOMERS // 2)
    stack.host.start()
    databases.insert_orders(1, ORDERS, customers=CUSTOMERS // 2)
    for act in _acts(databases):
        act()
        time.sleep(chance.uniform(0, 1.2))
        chance.choice([_kill_emulator, _kill_worker, _kill_host])(stack)
    _wait_until_quiet(stack)
    detected, places = _last_changes(stack), _places(stack)
    lost = {change for change in detected if not places.of(change)}
    assert not lost
    assert not places.queued
    only = Counter(places.of(change)[0] for change in detected)
    _LOGGER.info("%d changes: %s", len(detected), only)
    assert sum(only.values()) == len(detected)
    assert min(only["succeeded"], only["ignored"], only["transitive"], only["dead"]) > 0, only
    _check_the_target(stack)


def _acts(databases: Databases) -> list[Callable[[], None]]:
    """What the people at the CRM do between two kills."""
    return [
        lambda: databases.insert_customers(CUSTOMERS // 2 + 1, CUSTOMERS // 2),
        lambda: databases.update_customers(CUSTOMERS // 3),
        lambda: databases.delete_orders(ORDERS // 10),
        lambda: databases.insert_orders(ORDERS + 1, ORDERS, customers=CUSTOMERS),
        lambda: databases.update_customers(CUSTOMERS),
        lambda: databases.delete_orders(ORDERS // 10),
        lambda: databases.update_customers(CUSTOMERS // 2),
    ]


def _kill_emulator(stack: Stack) -> None:
    kill(int(stack.service_bus.facts()["pid"]))
    stack.service_bus.wait_for_end()
    stack.service_bus.start()


def _kill_worker(stack: Stack) -> None:
    before = int(stack.host.facts()["worker_pid"])
    kill(before)
    _wait_for(lambda: int(stack.host.facts()["worker_pid"]) != before)


def _kill_host(stack: Stack) -> None:
    kill(int(stack.host.facts()["pid"]))
    stack.host.wait_for_end()
    stack.host.start()


def _last_changes(stack: Stack) -> set[Change]:
    """Return the last change of each record that the CRM still has."""
    return _changes(stack, "crm", 0)


def _changes(stack: Stack, database: str, side: int) -> set[Change]:
    with psycopg.connect(stack.postgres.dsn(database)) as connection:
        return {
            (job, key, moment.isoformat())
            for job, queries in _JOBS.items()
            for key, moment in connection.execute(queries[side])
        }


def _places(stack: Stack) -> Places:
    with service_bus_client(stack.app_settings()) as client:
        processing = PROCESSING_QUEUES.values()
        return Places(
            succeeded=_changes(stack, "erp", 1),
            ignored=_peeked(client, [IGNORED_QUEUE]),
            transitive=_peeked(client, TRANSITIVE_QUEUES.values()),
            dead=_peeked(client, processing, dead=True),
            queued=_peeked(client, processing),
        )


def _peeked(
    client: ServiceBusClient, queues: Iterable[str], *, dead: bool = False
) -> Counter[Change]:
    found: Counter[Change] = Counter()
    sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
    for queue in queues:
        start = 1
        with client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver:
            while messages := receiver.peek_messages(250, sequence_number=start):
                for each in messages:
                    message = QueueMessage.from_body(b"".join(each.body))
                    found[message.job_name, message.source_key, message.change_tracker] += 1
                start = (messages[-1].sequence_number or 0) + 1
    return found


def _wait_until_quiet(stack: Stack) -> None:
    """Wait until nothing is queued and no source has anything new, for two ticks."""

    def is_quiet() -> bool:
        before = _progress(stack)
        time.sleep(5)
        return _progress(stack) == before and not before[0]

    _wait_for(is_quiet, seconds=150)


def _progress(stack: Stack) -> tuple[int, list[str | None]]:
    watermarks = Composition(stack.app_settings()).watermarks
    with service_bus_client(stack.app_settings()) as client:
        queued = _peeked(client, PROCESSING_QUEUES.values()).total()
    return queued, [watermarks.get_watermark_by_job_name(job).watermark for job in _JOBS]


def _check_the_target(stack: Stack) -> None:
    with psycopg.connect(stack.postgres.dsn("erp")) as erp:
        [(backwards,)] = erp.execute("SELECT count(*) FROM written WHERE change < before")
        [(doubled,)] = erp.execute("SELECT count(*) FROM written WHERE change = before")
        assert backwards == 0, "an older change overwrote a newer one"
        _LOGGER.info("%d writes repeated what was there already", doubled)
        orders = {key for (key,) in erp.execute("SELECT document_number FROM sales_order")}
    with psycopg.connect(stack.postgres.dsn("crm")) as crm:
        known = {key for (key,) in crm.execute("SELECT order_number FROM customer_order")}
    assert orders <= known, "a deleted order came back"


def _wait_for(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)
