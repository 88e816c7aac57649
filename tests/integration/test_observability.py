"""What the running app tells of itself: its metrics balance, its traces hang together, its log."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from devstack.demo.scenario import demo_stack
from devstack.disasters import wait_for
from devstack.processes import ROOT
from devstack.stack import Stack, run_folder
from tests.builders import a_queues_file
from tests.otlp import Collector, Span, collector

pytestmark = pytest.mark.integration

CUSTOMERS = 40
#: The target refuses numbers that end with a seven.
REFUSED = 4
ATTEMPTS = 2
QUEUE = "sbqnormal"
#: Stands in each record, and may stand in no log.
PAYLOAD = "Erika-Mustermann"


@dataclass
class Scene:
    stack: Stack
    collector: Collector

    def balance(self) -> dict[str, int]:
        """Return the entries of the balance, without those that are 0."""
        entries = ("sent", "succeeded", "transitive", "ignored", "deadLettered")
        totals = {entry: self.collector.total("ChangeBalance", entry=entry) for entry in entries}
        return {entry: int(total) for entry, total in totals.items() if total}

    def spans_of(self, key: str) -> list[Span]:
        return [s for s in self.collector.spans if s.attributes.get("gleichlauf.source_key") == key]

    def log(self) -> str:
        return self.stack.host.log.read_text("utf-8")


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with collector() as found, run_folder("test") as folder:
        queues = a_queues_file(folder, MaxDeliveryCount=ATTEMPTS)
        with demo_stack(folder, queues=queues) as (stack, databases):
            databases.insert_customers(1, CUSTOMERS)
            with connected(stack, "crm") as crm:
                crm.execute("UPDATE customer SET name = %s", [PAYLOAD])
            with connected(stack, "erp") as erp:
                erp.execute(
                    "ALTER TABLE business_partner ADD CONSTRAINT refused"
                    " CHECK (partner_number NOT LIKE '%7')"
                )
            stack.settings = {
                **stack.settings,
                "SYNC_BACKOFF_UNIT_MS": "5",
                "OTEL_EXPORTER_OTLP_ENDPOINT": found.endpoint,
                "OTEL_TRACES_SAMPLER": "parentbased_always_on",
                "OTEL_METRIC_EXPORT_INTERVAL": "300",
                "OTEL_BSP_SCHEDULE_DELAY": "100",
            }
            stack.host.start()
            yield Scene(stack, found)


@contextmanager
def connected(stack: Stack, database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as connection:
        yield connection


def test_what_was_sent_is_where_it_ended_and_stays_so_when_it_is_sent_again(
    scene: Scene, tmp_path: Path
) -> None:
    expected = {"sent": CUSTOMERS, "succeeded": CUSTOMERS - REFUSED, "deadLettered": REFUSED}
    wait_for(lambda: scene.balance() == expected, seconds=60)
    assert scene.collector.total("QueueDepth", queue=QUEUE, kind="deadLetter") in (0, REFUSED)
    with connected(scene.stack, "erp") as erp:
        erp.execute("ALTER TABLE business_partner DROP CONSTRAINT refused")
        rules = tmp_path / "rules.yaml"
        rules.write_text("rules: [{pattern: refused, action: Resubmit}]", "utf-8")
        subprocess.run(
            [
                *(sys.executable, "-m", "dead_letter_mover", QUEUE, "--dead-letter"),
                *("--rules", str(rules), "--apply"),
            ],
            cwd=ROOT,
            env=scene.stack.app_settings(),
            check=True,
            capture_output=True,
        )
        query = "SELECT count(*) FROM business_partner"
        wait_for(lambda: erp.execute(query).fetchone() == (CUSTOMERS,), seconds=60)
    done = {"job": "customers-to-erp", "outcome": "Success"}
    wait_for(lambda: scene.collector.total("MessagesProcessed", **done) == CUSTOMERS)
    assert scene.balance() == expected, "one change, one entry on each side"


def test_the_trace_of_a_change_has_its_detection_and_all_its_attempts(scene: Scene) -> None:
    key = "D000007"
    wait_for(lambda: len(scene.spans_of(key)) == 2 + ATTEMPTS)
    created, *attempts = scene.spans_of(key)
    assert created.name == f"create {QUEUE}"
    assert {span.trace for span in attempts} == {created.trace}
    assert {span.parent for span in attempts} == {created.id}
    told = [span.attributes["gleichlauf.action"] for span in attempts]
    assert told == ["failed", "dead-lettered", "processed"]
    assert scene.spans_of("D000008")[0].trace != created.trace


@pytest.mark.parametrize(
    "metric",
    ["BatchSize", "ChangesDetected", "WatermarkLag", "OldestMessageAge", "QueueDepth"],
)
def test_the_metrics_arrive_under_their_names(scene: Scene, metric: str) -> None:
    names = wait_for(lambda: {name for name, _ in list(scene.collector.values)} & {metric})
    assert names == {metric}


def test_the_log_tells_each_event_of_a_record_on_one_line_and_nothing_of_its_content(
    scene: Scene,
) -> None:
    subject = f"queue={QUEUE} job=customers-to-erp key=D000007"
    lines = [line for line in scene.log().splitlines() if subject in line]
    told = [line[line.index("action=") :].split()[0] for line in lines]
    assert told == [
        *("action=failed", "action=failed", "action=dead-lettered", "action=processed"),
    ]
    assert PAYLOAD not in scene.log()
    for name, value in scene.stack.app_settings().items():
        if name.startswith("SYNC_S") or name.endswith("_URL"):
            assert value not in scene.log(), name
