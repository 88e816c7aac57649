"""20,000 messages into PostgreSQL: through the Functions host, and by a bare SDK loop.

Both sides empty the same queue of the same emulator into the same table with the same upsert, and
the same clock judges both: the time between the first and the last row, as the database wrote them.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.rows import Row, compared
from bench.upserts import QUEUE
from composition import Composition
from devstack.demo.scenario import demo_stack
from devstack.processes import ROOT, StackError
from devstack.stack import Stack, run_folder
from models.job import Priority
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from services.azure_access import service_bus_administration
from services.outgoing import OutgoingMessage

MESSAGES = 20_000
_ROUNDS = 7
_BAR = 1.0
#: So long nothing needs to happen before something is wrong.
_PATIENCE_SECONDS = 120
_COMPLETION_SECONDS = 10

#: What empties the queue: it starts, calls its second argument, which waits, and stops.
type Side = Callable[[Stack, Callable[[], None]], None]


def measure() -> list[Row]:
    """Return one row: messages a second through the host, and by the bare loop."""
    with filled_stack(MESSAGES) as (stack, messages):
        ours, other = [], []
        for number in range(1, _ROUNDS + 1):
            ours.append(rate(stack, messages, through_the_host))
            other.append(rate(stack, messages, _by_a_bare_loop))
            print(f"processing {number}/{_ROUNDS}: host {ours[-1]:.0f}/s, loop {other[-1]:.0f}/s")
    return [compared(f"processing {MESSAGES} messages / bare SDK loop", ours, other, _BAR)]


@contextmanager
def filled_stack(customers: int) -> Iterator[tuple[Stack, list[QueueMessage]]]:
    """Start all but the host, and return the stack with what detection makes of the customers."""
    with run_folder("bench") as folder, demo_stack(folder) as (stack, databases):
        # The timer must not send anything of its own.
        stack.settings = {**stack.settings, "SYNC_GET_CHANGES_SCHEDULE": "0 0 0 1 1 *"}
        databases.insert_customers(1, customers)
        note_arrivals(stack)
        yield stack, changes_of(stack, "customers-to-erp")


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


def rate(stack: Stack, messages: Sequence[QueueMessage], side: Side) -> float:
    """Fill the queue, let `side` empty it, and return messages a second."""
    with Composition(stack.app_settings()).open_service_bus() as service_bus:
        for message in messages:
            service_bus.add_message_or_send(OutgoingMessage.of(message, Priority.NORMAL))
        service_bus.flush_batch()
    with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
        erp.execute("TRUNCATE business_partner, sales_order")
        side(stack, lambda: _wait_until_done(stack, erp, len(messages)))
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
    # To count takes the database time: of many rows more, so they are counted less often.
    pause = max(0.2, count / 50_000)
    here, end = 0, 0.0
    while True:
        [(now_here,)] = erp.execute("SELECT count(*) FROM business_partner").fetchall()
        if now_here == count:
            return
        if now_here > here or not end:
            here, end = now_here, time.monotonic() + _PATIENCE_SECONDS
        if time.monotonic() > end:
            msg = f"{here} of {count} rows arrived, and no more within {_PATIENCE_SECONDS} s"
            raise StackError(msg)
        time.sleep(pause)


def _wait_until_done(stack: Stack, erp: psycopg.Connection, count: int) -> None:
    """Wait for the rows, then for the last completions: the next round needs an empty queue."""
    wait_for_customers(erp, count)
    end = time.monotonic() + _COMPLETION_SECONDS
    with service_bus_administration(stack.app_settings()) as administration:
        while left := administration.get_queue_runtime_properties(QUEUE).total_message_count:
            if time.monotonic() > end:
                # A side may forget one; when its lock ends, it is upserted as it was.
                print(f"all rows arrived, but {left} messages stay in {QUEUE}")
                return
            time.sleep(0.1)


def through_the_host(stack: Stack, wait: Callable[[], None]) -> None:
    """Empty the queue as the app does on Azure."""
    stack.host.start()
    try:
        wait()
    finally:
        stack.host.stop()


def _by_a_bare_loop(stack: Stack, wait: Callable[[], None]) -> None:
    loop = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "bench.bare_loop", str(MESSAGES)],
        cwd=ROOT,
        env={**stack.app_settings(), "PATH": str(Path(sys.executable).parent)},
    )
    wait()
    loop.wait(timeout=30)
