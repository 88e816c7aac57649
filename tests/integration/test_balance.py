"""Kills, at random points and at a chosen one: every change ends where the rules say.

Detected = succeeded + ignored + transitive + dead-lettered, once nothing is queued any more.
Balanced is the last change of each record; earlier ones may have been overwritten by it. Deletions
are found by their notes. What came twice is counted apart.
"""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import psycopg
import pytest
from azure.servicebus import ServiceBusSubQueue

from composition import Composition
from connectors.sql.connector import PAGE_SIZE
from devstack.demo.databases import Databases
from devstack.demo.scenario import demo_stack, wait_until_equal
from devstack.stack import Stack, run_folder
from models.queue_message import QueueMessage
from models.queues import IGNORED_QUEUE, PROCESSING_QUEUES, TRANSITIVE_QUEUES
from services.azure_access import blob_client, service_bus_client
from services.payloads import PAYLOADS, PayloadService
from tests.builders import a_message, a_queues_file
from tests.integration.disasters import kill_emulator, kill_host, kill_worker, wait_for

_LOGGER = logging.getLogger(__name__)

pytestmark = pytest.mark.integration

SEED = 20261130
CUSTOMERS, ORDERS = 300, 600
PAGES = 3
_LONG_AGO = "1900-01-01T00:00:00+00:00"

#: Refused: the target's own rule. Outdated: the target was written by somebody later. Orders of the
#: refused customers find no customer. `_expected` says the same again.
_RULES = """
ALTER TABLE business_partner ADD CONSTRAINT refused CHECK (partner_number NOT LIKE '%7');
INSERT INTO business_partner (partner_number, name, city, credit_limit, partner_since, is_active,
                              crm_modified_at)
    SELECT 'D' || to_char(10 * n, 'FM000000'), 'written later', 'Ulm', 0, '2000-01-01', true,
           '2999-01-01'
    FROM generate_series(1, 10) n;
"""

#: All writes are noted; none may go back in time.
_NOTES = """
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

    def of(self, change: Change) -> set[str]:
        return {name for name, found in vars(self).items() if change in found}


@pytest.fixture
def scene() -> Iterator[tuple[Stack, Databases]]:
    with (
        run_folder("test") as folder,
        demo_stack(folder, queues=a_queues_file(folder, LockDuration="PT5S")) as (stack, databases),
    ):
        with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
            erp.execute(_NOTES)
        stack.settings = {**stack.settings, "SYNC_BACKOFF_UNIT_MS": "5"}
        yield stack, databases


def test_every_change_survives_kills_at_random_points_and_ends_where_it_should(
    scene: tuple[Stack, Databases],
) -> None:
    stack, databases = scene
    with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
        erp.execute(_RULES)
    chance = random.Random(SEED)  # noqa: S311 - not a secret
    databases.insert_customers(1, CUSTOMERS // 2)
    stack.host.start()
    databases.insert_orders(1, ORDERS, customers=CUSTOMERS // 2)
    met = []
    for act in _acts(stack, databases):
        act()
        time.sleep(chance.uniform(0, 1.2))
        met.append(_progress(stack)[0])
        chance.choice([kill_emulator, kill_worker, kill_host])(stack)
    _wait_until_quiet(stack)
    detected, places = _changes(stack, "crm", 0), _places(stack)
    wrong = {
        change: found
        for change, expected in _expected(stack).items()
        if not (found := places.of(change)) or not found <= expected
    }
    assert not wrong
    only = Counter("+".join(sorted(places.of(change))) for change in detected)
    _LOGGER.info("%d changes: %s; messages at the kills: %s", len(detected), only, met)
    assert {"succeeded", "ignored", "transitive", "dead"} <= only.keys(), only
    assert any(met), "no kill met a message"
    # Value by value, and no deleted order is there.
    difference = databases.compare()
    assert difference.missing + difference.different == len(detected - places.succeeded)
    assert difference.surplus == 0
    _check_deletions(stack)
    _check_writes(stack)


def test_a_kill_between_sending_and_the_watermark_repeats_changes_and_loses_none(
    scene: tuple[Stack, Databases],
) -> None:
    stack, databases = scene
    databases.insert_customers(1, 1)
    stack.host.start()
    wait_until_equal(databases, stack, seconds=60)
    before = wait_for(lambda: _progress(stack)[1][0], seconds=60)
    databases.insert_customers(2, PAGES * PAGE_SIZE)
    with (
        psycopg.connect(stack.postgres.dsn("crm"), autocommit=True) as crm,
        psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp,
    ):
        wait_for(lambda: databases.count_partners() > 1, seconds=60)
        # The next page cannot be read: the run is between what it has sent and the watermark.
        with crm.transaction():
            crm.execute("LOCK TABLE customer IN ACCESS EXCLUSIVE MODE")
            [reader] = wait_for(lambda: erp.execute(_READS_ON).fetchone(), seconds=60)
            sent = {key for (key,) in erp.execute("SELECT partner_number FROM business_partner")}
            sent -= {"D000001"}
            kill_worker(stack)
            erp.execute("SELECT pg_terminate_backend(%s)", [reader])
            assert _progress(stack)[1][0] == before
        wait_until_equal(databases, stack, seconds=120)
        _wait_until_quiet(stack)
        query = "SELECT key FROM written GROUP BY key, change HAVING count(*) > 1"
        repeated = {key for (key,) in erp.execute(query)}
    _LOGGER.info("%d had been written before the kill, %d twice", len(sent), len(repeated))
    assert sent
    assert sent <= repeated, "the watermark had moved: the kill came too late to prove anything"
    assert _places(stack).dead == Counter()
    _check_writes(stack)


#: Who waits for a page of customers behind another one.
_READS_ON = """
SELECT pid FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND query LIKE '%(customer.modified_at, customer.customer_number) >%'
"""


def _acts(stack: Stack, databases: Databases) -> list[Callable[[], None]]:
    """What the people at the CRM do between two kills."""
    return [
        lambda: databases.insert_customers(CUSTOMERS // 2 + 1, CUSTOMERS // 2),
        lambda: databases.update_customers(CUSTOMERS // 3),
        lambda: databases.delete_orders(ORDERS // 10),
        lambda: databases.insert_orders(ORDERS + 1, ORDERS, customers=CUSTOMERS),
        lambda: _write_long_notes(stack),
        lambda: databases.update_customers(CUSTOMERS),
        lambda: databases.delete_orders(ORDERS // 10),
        lambda: databases.update_customers(CUSTOMERS // 2),
    ]


def _write_long_notes(stack: Stack) -> None:
    """Make some messages too large for the bus."""
    with psycopg.connect(stack.postgres.dsn("crm"), autocommit=True) as crm:
        crm.execute(
            "UPDATE customer_order SET note = repeat('ü', 120000) WHERE order_number LIKE '%5_'"
            " AND (customer_number LIKE '%7' OR order_number LIKE '%0')"
        )


def _expected(stack: Stack) -> dict[Change, set[str]]:
    """Return where the last change of each record may be, by the rules above."""
    with psycopg.connect(stack.postgres.dsn("crm")) as crm:
        customers = crm.execute("SELECT customer_number, modified_at FROM customer").fetchall()
        orders = crm.execute(
            "SELECT order_number, customer_number, modified_at FROM customer_order"
        )
        expected = {
            ("customers-to-erp", key, moment.isoformat()): {_place_of(key)}
            for key, moment in customers
        }
        for key, customer, moment in orders:
            # Any order may come before its customer; then it waits, and a repetition may succeed.
            places = {"transitive"} if customer.endswith("7") else {"transitive", "succeeded"}
            expected["orders-to-erp", key, moment.isoformat()] = places
    return expected


def _place_of(customer: str) -> str:
    if customer.endswith("7"):
        return "dead"
    return "ignored" if customer.endswith("0") and customer <= "D000100" else "succeeded"


def _changes(stack: Stack, database: str, side: int) -> set[Change]:
    with psycopg.connect(stack.postgres.dsn(database)) as connection:
        return {
            (job, key, moment.isoformat())
            for job, queries in _JOBS.items()
            for key, moment in connection.execute(queries[side])
        }


def _places(stack: Stack) -> Places:
    processing = PROCESSING_QUEUES.values()
    return Places(
        succeeded=_changes(stack, "erp", 1),
        ignored=_peeked(stack, [IGNORED_QUEUE]),
        transitive=_peeked(stack, TRANSITIVE_QUEUES.values()),
        dead=_peeked(stack, processing, dead=True),
        queued=_peeked(stack, processing),
    )


def _peeked(stack: Stack, queues: Iterable[str], *, dead: bool = False) -> Counter[Change]:
    """Count the messages by change; the large ones are fetched from where they lie."""
    found: Counter[Change] = Counter()
    sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
    settings = stack.app_settings()
    with service_bus_client(settings) as client, blob_client(settings) as blobs:
        payloads = PayloadService(blobs.get_container_client(PAYLOADS))
        for queue in queues:
            start = 1
            with client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver:
                while messages := receiver.peek_messages(250, sequence_number=start):
                    for each in messages:
                        body = payloads.check_out(b"".join(each.body))
                        message = QueueMessage.from_body(body)
                        found[message.job_name, message.source_key, message.change_tracker] += 1
                    start = (messages[-1].sequence_number or 0) + 1
    return found


def _wait_until_quiet(stack: Stack) -> None:
    """Wait until nothing is queued and no source has anything new, for two ticks."""

    def is_quiet() -> bool:
        before = _progress(stack)
        time.sleep(5)
        return _progress(stack) == before and not before[0]

    wait_for(is_quiet, seconds=150)


def _progress(stack: Stack) -> tuple[int, list[str | None]]:
    watermarks = Composition(stack.app_settings()).watermarks
    queued = _peeked(stack, PROCESSING_QUEUES.values()).total()
    return queued, [watermarks.get_watermark_by_job_name(job).watermark for job in _JOBS]


def _check_deletions(stack: Stack) -> None:
    """Every deletion was noted; that its record is gone, the comparison says."""
    app = Composition(stack.app_settings())
    job = app.configuration().jobs["orders-to-erp"]
    with psycopg.connect(stack.postgres.dsn("crm")) as crm:
        query = "SELECT order_number, deleted_at FROM deleted_order"
        deletions = crm.execute(query).fetchall()
    assert len(deletions) == 2 * (ORDERS // 10)
    for key, moment in deletions:
        order = a_message(job_name=job.name, source_key=key, change_tracker=_LONG_AGO)
        noted = app._deletions.later_than(job, order)  # noqa: SLF001 - one part of the whole
        assert noted == moment.isoformat(), key


def _check_writes(stack: Stack) -> None:
    with psycopg.connect(stack.postgres.dsn("erp")) as erp:
        [(backwards,)] = erp.execute("SELECT count(*) FROM written WHERE change < before")
        [(repeats,)] = erp.execute("SELECT count(*) FROM written WHERE change = before")
        [(writes,)] = erp.execute("SELECT count(*) FROM written")
    assert backwards == 0, "an older change overwrote a newer one"
    _LOGGER.info("%d of %d writes repeated what was there already", repeats, writes)
