"""Every change ends where the rules say: the fault campaign, and a kill at a chosen point."""

import logging

import pytest

from connectors.sql.connector import PAGE_SIZE
from devstack.demo.scenario import wait_until_equal
from devstack.disasters import kill_worker, wait_for
from devstack.stack import run_folder
from soak.campaign import Plan, must_hold, run
from soak.faults import FAULTS
from soak.places import Observer, wait_until_quiet
from soak.report import report
from soak.scene import CUSTOMERS, open_scene

_LOGGER = logging.getLogger(__name__)

pytestmark = pytest.mark.integration

#: Other seeds: `make soak OPTIONS="--changes 500 --seed 7"`.
SEED = 20261130
CHANGES = 500
PAGES = 3


def test_every_change_survives_all_faults_and_ends_where_it_should() -> None:
    with run_folder("test") as folder:
        with open_scene(folder) as scene:
            result = run(scene, Plan.of(CHANGES, SEED), _LOGGER.info)
        _LOGGER.info("\n".join(report(result)))
        must_hold(result, folder)
    assert len(result.events) > len(FAULTS)
    assert result.changes >= CHANGES
    assert all(map(result.found_in, ("succeeded", "ignored", "transitive", "dead")))
    assert any(row.places["queued"] for row in result.live), "no look met a message"


def test_a_kill_between_sending_and_the_watermark_repeats_changes_and_loses_none() -> None:
    with run_folder("test") as folder, open_scene(folder, rules=False) as scene:
        stack, databases = scene.stack, scene.databases
        databases.insert_customers(1, 1)
        stack.host.start()
        wait_until_equal(databases, stack, seconds=60)
        with (
            Observer(scene) as observer,
            scene.database("crm") as crm,
            scene.database("erp") as erp,
        ):
            before = wait_for(lambda: observer.look().watermarks[CUSTOMERS], seconds=60)
            databases.insert_customers(2, PAGES * PAGE_SIZE)
            wait_for(lambda: databases.count_partners() > 1, seconds=60)
            # The next page cannot be read: the run is between what it has sent and the watermark.
            with crm.transaction():
                crm.execute("LOCK TABLE customer IN ACCESS EXCLUSIVE MODE")
                [reader] = wait_for(lambda: erp.execute(_READS_ON).fetchone(), seconds=60)
                query = "SELECT partner_number FROM business_partner"
                sent = {key for (key,) in erp.execute(query)} - {"D000001"}
                kill_worker(stack)
                erp.execute("SELECT pg_terminate_backend(%s)", [reader])
                assert observer.look().watermarks[CUSTOMERS] == before
            wait_until_equal(databases, stack, seconds=120)
            wait_until_quiet(scene, seconds=150)
            query = "SELECT key FROM written GROUP BY key, change HAVING count(*) > 1"
            repeated = {key for (key,) in erp.execute(query)}
            look = observer.look()
    _LOGGER.info("%d had been written before the kill, %d twice", len(sent), len(repeated))
    assert sent
    assert sent <= repeated, "the watermark had moved: the kill came too late to prove anything"
    assert not look.dead
    assert not look.backwards


#: Who waits for a page of customers behind another one.
_READS_ON = """
SELECT pid FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND query LIKE '%(customer.modified_at, customer.customer_number) >%'
"""
