"""Durable detection on real servers: what two starts, failures and kills do to the jobs."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from composition import Composition
from devstack.demo.databases import Databases
from devstack.demo.scenario import demo_stack, host_key, wait_until_equal
from devstack.disasters import kill_host, kill_worker, wait_for
from devstack.processes import ROOT
from devstack.stack import Stack, run_folder
from services.detection.watermarks import StoredWatermark
from tests.builders import a_queues_file

JOBS = CUSTOMERS, ORDERS = "customers-to-erp", "orders-to-erp"
START = "StartGetChangesOrchestration"

#: More than an activity reads, which is three pages of 1,000.
TWO_ACTIVITIES = 3_200

pytestmark = pytest.mark.integration


class Scene:
    """The stack, and what an operator does with durable detection."""

    def __init__(self, stack: Stack, databases: Databases) -> None:
        self.stack = stack
        self.databases = databases
        self.customers = self.orders = 0

    def insert(self, customers: int, orders: int) -> None:
        """Insert more of both; nobody has had their numbers before."""
        self.databases.insert_customers(self.customers + 1, customers)
        self.customers += customers
        self.databases.insert_orders(self.orders + 1, orders, customers=self.customers)
        self.orders += orders

    def begin(self) -> str:
        """Start an orchestration and return its id."""
        [(status, answer)] = self.begin_together(1)
        assert status == 202, answer
        instance: str = answer["id"]
        return instance

    def begin_together(self, count: int, body: bytes = b"{}") -> list[tuple[int, dict[str, Any]]]:
        """Start so many orchestrations, none of which waits for another's answer."""
        address = urlsplit(str(self.stack.host.facts()["url"])).netloc
        headers = {"x-functions-key": host_key(self.stack, START)}
        connections = [HTTPConnection(address, timeout=30) for _ in range(count)]
        for connection in connections:
            connection.connect()
        for connection in connections:
            connection.request("POST", f"/api/{START}", body, headers)
        answers = []
        for connection in connections:
            answer = connection.getresponse()
            answers.append((answer.status, json.loads(answer.read())))
            connection.close()
        return answers

    def webhook(self, path: str, method: str = "GET", body: object = None) -> Any:
        url = f"{self.stack.host.facts()['url']}/runtime/webhooks/durabletask{path}"
        headers = {"x-functions-key": host_key(self.stack), "content-type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, content, headers, method=method)  # noqa: S310 - our own host
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
            return json.loads(answer.read() or b"null")

    def status(self, instance: str) -> Mapping[str, Any]:
        """Return what the host says of an instance."""
        status: Mapping[str, Any] = self.webhook(f"/instances/{instance}")
        return status

    def ended(self, instance: str) -> tuple[str, Any]:
        """Wait until an instance has ended; return how, and its output."""

        def is_over() -> Mapping[str, Any] | None:
            status = self.status(instance)
            return None if status["runtimeStatus"] in {"Pending", "Running"} else status

        status = wait_for(is_over, seconds=60)
        return status["runtimeStatus"], status["output"]

    def claims(self) -> dict[str, dict[str, str]]:
        """Return which jobs the entity holds for whom."""
        claims: dict[str, dict[str, str]] = self.webhook("/entities/JobState/jobs")
        return claims

    def activities_ended(self, instance: str) -> int:
        """Return how many activities of an instance have given their result."""
        status = self.webhook(f"/instances/{instance}?showHistory=true")
        return sum(
            found["EventType"] == "TaskCompleted" and found["FunctionName"] == "GetChangesActivity"
            for found in status["historyEvents"]
        )

    def wait_until_equal(self) -> None:
        wait_until_equal(self.databases, self.stack, seconds=60)

    def jobs(self) -> dict[str, StoredWatermark]:
        """Return how far the jobs are, as the operator console says."""
        run = subprocess.run(
            [sys.executable, "-m", "operator_console", "jobs", "--json"],
            cwd=ROOT,
            env=self.stack.app_settings(),
            check=True,
            capture_output=True,
        )
        return {
            line["job"]: StoredWatermark(line["watermark"], line["lastRun"])
            for line in json.loads(run.stdout)
        }


@pytest.fixture(scope="module")
def running() -> Iterator[Scene]:
    with (
        run_folder("test") as folder,
        # So long a killed host holds its messages.
        demo_stack(folder, queues=a_queues_file(folder, LockDuration="PT5S")) as (stack, databases),
    ):
        stack.settings = {
            **stack.settings,
            "SYNC_BACKOFF_UNIT_MS": "10",
            "SYNC_DETECTION": "durable",
            "SYNC_GET_CHANGES_SCHEDULE": "0 0 0 1 1 *",
        }
        stack.host.start()
        yield Scene(stack, databases)


@pytest.fixture
def scene(running: Scene) -> Scene:
    """All jobs begin behind what the tests before have made."""
    watermarks = Composition(running.stack.app_settings()).watermarks
    watermarks.prepare_storage()
    for job in JOBS:
        watermarks.set_watermark(job, datetime.now(UTC).isoformat())
    return running


def test_d4_of_two_starts_at_once_each_job_runs_once_and_the_other_instance_skips(
    scene: Scene,
) -> None:
    scene.insert(2_000, 500)
    answers = scene.begin_together(2)
    assert [status for status, _ in answers] == [202, 202]
    for _, answer in answers:
        with urllib.request.urlopen(answer["statusQueryGetUri"], timeout=30) as status:  # noqa: S310 - our own host
            assert json.load(status)["instanceId"] == answer["id"]
        assert answer["id"] in answer["terminatePostUri"]
    outcomes = [scene.ended(answer["id"]) for _, answer in answers]
    assert [status for status, _ in outcomes] == ["Completed", "Completed"]
    ran, other = sorted((output for _, output in outcomes), key=lambda it: len(it["skipped"]))
    assert ran == {"detected": {CUSTOMERS: 2_000, ORDERS: 500}, "skipped": {}}
    assert (other["detected"], list(other["skipped"])) == ({}, [CUSTOMERS, ORDERS])
    # It asked after the claim, or before and came too late.
    why = other["skipped"][CUSTOMERS]
    assert "has it in hand" in why or why == "another instance has just taken it"
    assert scene.claims() == {}
    scene.wait_until_equal()


def test_durable_runs_leave_the_stored_watermark_and_so_read_the_same_again(scene: Scene) -> None:
    scene.insert(20, 10)
    before = scene.jobs()
    assert [scene.ended(scene.begin()) for _ in range(2)] == [
        ("Completed", {"detected": {CUSTOMERS: 20, ORDERS: 10}, "skipped": {}})
    ] * 2
    assert scene.jobs() == before
    assert before.keys() == {*JOBS}
    assert None not in {row.watermark for row in before.values()}
    scene.wait_until_equal()


def test_d1_d3_a_failed_job_is_named_in_few_words_and_the_next_start_runs_it(scene: Scene) -> None:
    scene.insert(20, 10)
    for broken in (_without_its_table, _with_a_long_error):
        with broken(scene.stack):
            instance = scene.begin()
            status, output = scene.ended(instance)
            assert status == "Failed"
            assert f"job {ORDERS} failed: " in output
            assert CUSTOMERS not in output
            assert len(output) < 3_000
            told = scene.status(instance)["customStatus"]
            assert told["detected"] == {CUSTOMERS: 20}
            assert list(told["failed"]) == [ORDERS]
            # The other job ran, and no claim is left.
            wait_for(lambda: scene.databases.count_partners() == scene.customers)
            assert scene.claims() == {}
    outcome = scene.ended(scene.begin())
    assert outcome == ("Completed", {"detected": {CUSTOMERS: 20, ORDERS: 10}, "skipped": {}})
    scene.wait_until_equal()


@contextmanager
def _without_its_table(stack: Stack) -> Iterator[None]:
    with psycopg.connect(stack.postgres.dsn("crm"), autocommit=True) as crm:
        crm.execute("ALTER TABLE customer_order RENAME TO away")
        try:
            yield
        finally:
            crm.execute("ALTER TABLE away RENAME TO customer_order")


@contextmanager
def _with_a_long_error(stack: Stack) -> Iterator[None]:
    """Whoever reads orders is told why not, in 70,000 characters."""
    with _without_its_table(stack), psycopg.connect(stack.postgres.dsn("crm")) as crm:
        crm.execute(
            """
            CREATE FUNCTION fails() RETURNS SETOF away LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION '%', repeat('x', 70000); END $$
            """
        )
        crm.execute("CREATE VIEW customer_order AS SELECT * FROM fails()")
        crm.commit()
        try:
            yield
        finally:
            crm.execute("DROP VIEW customer_order")
            crm.execute("DROP FUNCTION fails")


@pytest.mark.parametrize("disaster", [kill_host, kill_worker])
def test_after_a_kill_the_same_instance_goes_on_and_nothing_is_missing(
    scene: Scene, disaster: Callable[[Stack], None]
) -> None:
    before = scene.databases.count_partners()
    scene.insert(TWO_ACTIVITIES, 0)
    instance = scene.begin()
    # In the first activity, and again behind it.
    wait_for(lambda: scene.databases.count_partners() >= before + 50)
    assert scene.activities_ended(instance) == 0
    disaster(scene.stack)
    wait_for(lambda: scene.activities_ended(instance) == 1)
    disaster(scene.stack)
    assert scene.ended(instance) == (
        "Completed",
        {"detected": {CUSTOMERS: TWO_ACTIVITIES, ORDERS: 0}, "skipped": {}},
    )
    assert scene.claims() == {}
    scene.wait_until_equal()


def test_the_next_start_takes_over_what_a_terminated_instance_left_behind(scene: Scene) -> None:
    scene.insert(1_500, 10)
    terminated = scene.begin()
    claim = wait_for(lambda: scene.claims().get(CUSTOMERS))
    assert claim["owner"] == terminated
    scene.webhook(f"/instances/{terminated}/terminate?reason=test", "POST")
    assert scene.ended(terminated) == ("Terminated", "test")
    assert scene.claims() == {CUSTOMERS: claim}
    outcome = scene.ended(scene.begin())
    assert outcome == ("Completed", {"detected": {CUSTOMERS: 1_500, ORDERS: 10}, "skipped": {}})
    assert scene.claims() == {}
    scene.wait_until_equal()


def test_a_start_takes_no_body(scene: Scene) -> None:
    [(status, answer)] = scene.begin_together(1, b'{"job": "orders-to-erp"}')
    assert status == 400
    assert "one job runs by ExecuteJob" in answer["errors"][0]


def test_in_timer_operation_a_start_is_refused_with_the_remedy(scene: Scene) -> None:
    scene.stack.restart_host(SYNC_DETECTION="timer")
    try:
        [(status, answer)] = scene.begin_together(1)
    finally:
        scene.stack.restart_host(SYNC_DETECTION="durable")
    assert status == 409
    assert answer == {
        "errors": [
            "detection runs by timer; set the app setting SYNC_DETECTION to durable to start it"
        ]
    }
