"""20,000 messages into PostgreSQL: through the Functions host, and by a bare SDK loop.

Both sides empty the same queue of the same emulator into the same table with the same upsert, and
the same clock judges both: the time between the first and the last row, as the database wrote them.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from bench.rows import Row, compared
from composition import Composition
from devstack.demo.databases import Databases
from devstack.demo.scenario import demo_stack
from devstack.processes import ROOT
from devstack.stack import Stack, run_folder
from models.job import Priority
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from services.outgoing import OutgoingMessage

MESSAGES = 20_000
_ROUNDS = 7
_BAR = 1.0
_PATIENCE_SECONDS = 300


def measure() -> list[Row]:
    """Return one row: messages a second through the host, and by the bare loop."""
    with run_folder("bench") as folder, demo_stack(folder) as (stack, databases):
        # The timer must not send anything of its own.
        stack.settings = {**stack.settings, "SYNC_GET_CHANGES_SCHEDULE": "0 0 0 1 1 *"}
        messages = _prepare(stack, databases)
        ours, other = [], []
        for number in range(1, _ROUNDS + 1):
            ours.append(_rate(stack, messages, _through_the_host))
            other.append(_rate(stack, messages, _by_a_bare_loop))
            print(f"processing {number}/{_ROUNDS}: host {ours[-1]:.0f}/s, loop {other[-1]:.0f}/s")
    return [compared(f"processing {MESSAGES} messages / bare SDK loop", ours, other, _BAR)]


def _prepare(stack: Stack, databases: Databases) -> list[QueueMessage]:
    databases.insert_customers(1, MESSAGES)
    note_arrivals(stack)
    return changes_of(stack, "customers-to-erp")


def note_arrivals(stack: Stack) -> None:
    """Have the ERP take note of when each customer arrived first."""
    with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
        erp.execute(
            "ALTER TABLE business_partner ADD written_at timestamptz DEFAULT clock_timestamp()"
        )


def changes_of(stack: Stack, job_name: str) -> list[QueueMessage]:
    """Return all changes of a job's source."""
    composition = Composition(stack.app_settings())
    configuration = composition.configuration()
    job = configuration.jobs[job_name]
    source = composition.connector(configuration.connections[job.source])
    beginning = WatermarkValue.initialize(job.cursor.type, None)
    return list(source.retrieve_changes(configuration.mapping_of(job), job, beginning, None))


def _rate(
    stack: Stack, messages: list[QueueMessage], side: Callable[[Stack, Callable[[], None]], None]
) -> float:
    """Fill the queue, let `side` empty it, and return messages a second."""
    with Composition(stack.app_settings()).open_service_bus() as service_bus:
        for message in messages:
            service_bus.add_message_or_send(OutgoingMessage.of(message, Priority.NORMAL))
        service_bus.flush_batch()
    with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
        erp.execute("TRUNCATE business_partner, sales_order")
        side(stack, lambda: wait_for_customers(erp, MESSAGES))
        return arrival_rate(erp)


def arrival_rate(erp: psycopg.Connection) -> float:
    """Return how many customers a second arrived, between the first one and the last."""
    query = """
        SELECT count(*) / extract(epoch FROM max(written_at) - min(written_at))
        FROM business_partner
    """
    [(rate,)] = erp.execute(query).fetchall()
    return float(rate)


def wait_for_customers(erp: psycopg.Connection, count: int) -> None:
    """Wait until the ERP holds `count` customers."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while erp.execute("SELECT count(*) FROM business_partner").fetchone() != (count,):
        if time.monotonic() > end:
            msg = f"the rows did not arrive within {_PATIENCE_SECONDS} s"
            raise TimeoutError(msg)
        time.sleep(0.2)
    time.sleep(0.5)  # for the last completions


def _through_the_host(stack: Stack, wait: Callable[[], None]) -> None:
    stack.host.start()
    wait()
    stack.host.stop()


def _by_a_bare_loop(stack: Stack, wait: Callable[[], None]) -> None:
    loop = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "bench.bare_loop", str(MESSAGES)],
        cwd=ROOT,
        env={**stack.app_settings(), "PATH": str(Path(sys.executable).parent)},
    )
    wait()
    loop.wait(timeout=30)
