"""The scene of `test_outcomes`: the stack with some jobs beyond the demonstration's."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue

from composition import Composition
from devstack.demo.databases import Databases
from devstack.demo.scenario import demo_stack
from devstack.disasters import wait_for
from devstack.processes import ROOT, kill
from devstack.stack import Stack, run_folder
from services.azure_access import service_bus_client
from tests.builders import a_queues_file

UNIT = timedelta(milliseconds=30)
THREADS = 16

#: How often `sbqlow` delivers.
ATTEMPTS_OF_LOW = 4

#: Three ways of how tables look to a response: its column may be empty or null before, and other
#: columns may have to be filled.
REQUESTS = {
    "request": ("title text", "number text NOT NULL DEFAULT ''"),
    "strict_request": ("title text NOT NULL", "number text NOT NULL DEFAULT ''"),
    "null_request": ("title text", "number text"),
}
_ITEMS = {"outage": "high", "poison": "low", "stall": "normal"}
_ITEM = "CREATE TABLE {} (id text PRIMARY KEY, modified_at timestamptz DEFAULT clock_timestamp());"
_BOOKING = "id text, amount numeric, day date, urgent boolean, pieces bigint, note text"
_NOTE = """
CREATE TABLE written (entity text, id text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO written VALUES (TG_TABLE_NAME, NEW.id); RETURN NEW; END $$;
"""
_NOTE_IT = "CREATE TRIGGER note AFTER INSERT OR UPDATE ON {0} FOR EACH ROW EXECUTE FUNCTION note();"
_CRM = f"""
CREATE TABLE booking ({_BOOKING}, modified_at timestamptz DEFAULT clock_timestamp());
CREATE TRIGGER touch BEFORE UPDATE ON booking FOR EACH ROW EXECUTE FUNCTION touch();
"""
_CRM_REQUEST = """
CREATE TABLE {0} (id text PRIMARY KEY, {1}, {2}, modified_at timestamptz DEFAULT clock_timestamp());
CREATE TRIGGER touch BEFORE UPDATE ON {0} FOR EACH ROW EXECUTE FUNCTION touch();
"""
_ERP = f"""
CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
CREATE TRIGGER hang BEFORE INSERT ON poison FOR EACH ROW WHEN (NEW.id = 'P')
    EXECUTE FUNCTION hang();
CREATE TABLE taken ({_BOOKING});
CREATE PROCEDURE take({_BOOKING}) LANGUAGE sql
BEGIN ATOMIC INSERT INTO taken VALUES (id, amount, day, urgent, pieces, note); END;
CREATE SEQUENCE request_number START 100;
"""  # noqa: S608 - our own names
_ERP_REQUEST = """
CREATE TABLE {0} (id text PRIMARY KEY, {1}, modified_at timestamptz,
                  number text DEFAULT 'R' || nextval('request_number'));
"""


@dataclass
class Scene:
    """The running stack, and connections to both databases."""

    stack: Stack
    databases: Databases
    crm: psycopg.Connection
    erp: psycopg.Connection

    def peeked(self, queue: str, job: str, *, dead: bool = False) -> list[Any]:
        """Return the messages of a job: delivered, scheduled or waiting; or its dead letters."""
        sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
        with (
            service_bus_client(self.stack.app_settings()) as client,
            client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver,
        ):
            messages = receiver.peek_messages(250, sequence_number=1)
        return [each for each in messages if facts_of(each).get("JobName") == job]

    def wait_for_message(
        self, queue: str, job: str, key: str, *, dead: bool = False, seconds: float = 30
    ) -> ServiceBusReceivedMessage:
        def probe() -> ServiceBusReceivedMessage | None:
            found = self.peeked(queue, job, dead=dead)
            return next((each for each in found if facts_of(each)["SourceKey"] == key), None)

        return wait_for(probe, seconds)

    def wait_until_done(self, queue: str, job: str) -> None:
        """Wait until every change that the source holds by now has left the queue."""
        now = datetime.now(UTC)
        watermarks = Composition(self.stack.app_settings()).watermarks

        def is_read() -> bool:
            tick = watermarks.get_watermark_by_job_name(job).last_cron_run
            return tick is not None and tick > now

        wait_for(is_read)
        wait_for(lambda: not self.peeked(queue, job))

    def backends(self, table: str, wait: str) -> list[int]:
        """Return who writes into a table and waits: for a `Lock`, or in a `Timeout`."""
        query = "SELECT pid FROM pg_stat_activity WHERE query ILIKE %s AND wait_event_type = %s"
        return [pid for (pid,) in self.erp.execute(query, [f"INSERT INTO {table} %", wait])]

    def kill_worker(self, backends: list[int]) -> None:
        """End the worker and what it was doing in the ERP, and wait for the next worker."""
        before = self.stack.host.facts()["worker_pid"]
        kill(int(before))
        self.erp.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s) pid", [backends])
        wait_for(lambda: self.stack.host.facts()["worker_pid"] != before)

    def ids(self, table: str) -> set[str]:
        return {key for (key,) in self.erp.execute(f"SELECT id FROM {table}")}  # noqa: S608 - our own names

    def bring_customers(self, *numbers: int) -> None:
        """Make customers and wait until the ERP has them."""
        for number in numbers:
            self.databases.insert_customers(number, 1)
        keys = [f"D{number:06}" for number in numbers]
        query = "SELECT 1 FROM business_partner WHERE partner_number = ANY(%s)"
        wait_for(lambda: self.erp.execute(query, [keys]).rowcount == len(keys))

    def order(self, number: str, customer: str, note: str = "") -> None:
        self.crm.execute(
            "INSERT INTO customer_order VALUES (%s, %s, '2026-11-30', 12.30, 1, %s)",
            [number, customer, note],
        )

    def wait_for_order(self, number: str) -> None:
        query = "SELECT 1 FROM sales_order WHERE document_number = %s"
        wait_for(lambda: self.erp.execute(query, [number]).fetchone())


@contextmanager
def running_scene() -> Iterator[Scene]:
    with (
        run_folder("test") as folder,
        demo_stack(folder, queues=_queues(folder), configuration=_configuration(folder)) as (
            stack,
            databases,
        ),
    ):
        stack.postgres.create_database("outage")
        stack.settings = {
            **stack.settings,
            "OUTAGE_DATABASE_URL": stack.postgres.sqlalchemy_url("outage"),
            "PYTHON_THREADPOOL_THREAD_COUNT": str(THREADS),
            "SYNC_BACKOFF_UNIT_MS": str(UNIT // timedelta(milliseconds=1)),
            "SYNC_GET_CHANGES_SCHEDULE": "* * * * * *",
        }
        with (
            opened(stack, "crm") as crm,
            opened(stack, "erp") as erp,
            opened(stack, "outage") as outage,
        ):
            outage.execute(_ITEM.format("outage"))
            for database, tables in ((crm, _ITEMS), (erp, ("poison", "stall"))):
                database.execute(_NOTE)
                for table in tables:
                    database.execute(_ITEM.format(table))
            crm.execute(_CRM)
            erp.execute(_ERP + _NOTE_IT.format("stall"))
            for table, columns in REQUESTS.items():
                crm.execute((_CRM_REQUEST + _NOTE_IT).format(table, *columns))
                erp.execute((_ERP_REQUEST + _NOTE_IT).format(table, columns[0]))
            stack.host.start()
            yield Scene(stack, databases, crm, erp)


def opened(stack: Stack, database: str) -> psycopg.Connection:
    return psycopg.connect(stack.postgres.dsn(database), autocommit=True)


def _queues(folder: Path) -> Path:
    """Return queues with short locks, of which `sbqlow` allows few attempts."""
    path = a_queues_file(folder, LockDuration="PT5S")
    content = json.loads(path.read_bytes())
    for queue in content["UserConfig"]["Namespaces"][0]["Queues"]:
        if queue["Name"] == "sbqlow":
            queue["Properties"]["MaxDeliveryCount"] = ATTEMPTS_OF_LOW
    path.write_text(json.dumps(content), "utf-8")
    return path


def _configuration(folder: Path) -> Path:
    """Return the configuration of the demonstration with some jobs more."""
    configuration = folder / "configuration"
    shutil.copytree(ROOT / "configuration", configuration)

    def write(kind: str, name: str, **content: object) -> None:
        path = configuration / kind / f"{name}.json"
        path.write_text(json.dumps({"name": name, **content}), "utf-8")

    def mapping(name: str, entity: str, *fields: str) -> None:
        rules = [{"source": field, "target": field, "empty": "skip"} for field in fields]
        keys = [{"source": "id", "target": "id"}]
        write("mappings", name, sourceEntity=entity, targetEntity=entity, keys=keys, fields=rules)

    way = {"source": "crm", "target": "erp", "watermark": {"field": "modified_at"}}
    way["watermark"]["type"] = "datetime"  # type: ignore[index]
    write("connections", "outage", system="sql", url="${OUTAGE_DATABASE_URL}")
    for name, priority in _ITEMS.items():
        mapping(name, name, "modified_at")
        changes = {"target": "outage"} if name == "outage" else {}
        write("jobs", name, mapping=name, priority=priority, **{**way, **changes})
    mapping("booking", "booking", "amount", "day", "urgent", "pieces", "note")
    write("jobs", "booking", mapping="booking", action={"name": "take"}, **way)
    for name in REQUESTS:
        back = f"{name}-number"
        mapping(name, name, "title", "number", "modified_at")
        mapping(back, name, "number")
        write("jobs", name, mapping=name, responseJob=back, skipOutdated="modified_at", **way)
        write("jobs", back, mapping=back, source="erp", target="crm")
    return configuration


def facts_of(message: ServiceBusReceivedMessage) -> dict[str, Any]:
    def text(value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    return {
        text(name): text(value) for name, value in (message.application_properties or {}).items()
    }


def body_of(message: ServiceBusReceivedMessage) -> bytes:
    return b"".join(message.body)
