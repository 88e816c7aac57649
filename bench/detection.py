"""100,000 rows of 20 fields to the queue: by detection, and by a loop that sends them ready-made.

The peer sends the same bodies, ids and properties, built before the clock starts, in batches of
200. Each side runs in a process of its own, against an emulator that was started for it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from azure.servicebus import ServiceBusClient

from bench.rows import Row, compared
from devstack.azurite import Azurite
from devstack.postgres import Postgres
from devstack.processes import ROOT
from devstack.stack import QUEUES, emulator, run_folder
from models.job import Priority
from models.queues import PROCESSING_QUEUES
from services.broker_limits import MESSAGES_PER_BATCH

ROWS = 100_000
_ROUNDS = 7
_BAR = 0.75
_MEMORY_ROWS = (10_000, 200_000)

_TABLE = """
CREATE TABLE source (
    id bigint PRIMARY KEY, modified_at timestamptz NOT NULL,
    t1 text, t2 text, t3 text, t4 text, t5 text, t6 text, t7 text, t8 text,
    n1 integer, n2 integer, n3 integer, n4 bigint, d1 numeric(15, 2), d2 numeric(15, 2),
    b1 boolean, b2 boolean, c1 date, c2 date
);
CREATE INDEX ON source (modified_at, id);
"""
_FILL = """
INSERT INTO source
SELECT n, timestamptz '2026-01-01' + n * %(apart)s::interval,
       'Müller ' || n, 'Straße ' || n, 'PLZ ' || n, 'Köln', 'DE', 'x' || n, 'y' || n, NULL,
       n, n %% 7, 3, n * bigint '1000000007', n / 100.0, 0.10, n %% 2 = 0, true,
       date '1949-05-23' + (n %% 28000), NULL
FROM generate_series(1, %(rows)s) AS n
"""


class Scene:
    """A source table, a storage account, and what a side needs to know of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.postgres = Postgres(folder)
        self.azurite = Azurite(folder)

    def fill(self, database: str, rows: int, apart: str = "1 millisecond") -> None:
        """Create the source table with `rows` rows, their cursor values so far `apart`."""
        self.postgres.create_database(database)
        with psycopg.connect(self.postgres.dsn(database), autocommit=True) as connection:
            connection.execute(_TABLE)
            connection.execute(_FILL, {"rows": rows, "apart": apart})
            connection.execute("ANALYZE source")

    def run(self, name: str, side: str, database: str) -> dict[str, float]:
        """Run one side against a fresh emulator and return `seconds`, `rows` and `peak_kb`.

        And `arrivals`: how many messages a second reached the queue, from its first batch on.
        """
        folder = self._folder / name
        folder.mkdir()
        bus = emulator(folder, QUEUES)
        connection_string = str(bus.start()["connection_string"])
        try:
            answer = subprocess.run(  # noqa: S603 - our own module
                [sys.executable, "-m", "bench.detection_side", side, name],
                cwd=ROOT,
                env={
                    "SYNC_SERVICE_BUS": connection_string,
                    "SYNC_STORAGE": self.azurite.connection_string(),
                    "SOURCE_URL": self.postgres.sqlalchemy_url(database),
                },
                check=True,
                stdout=subprocess.PIPE,
            )
            measured: dict[str, float] = json.loads(answer.stdout)
            arrivals = _arrivals(connection_string, int(measured["rows"]))
        finally:
            bus.stop()
        return {**measured, "arrivals": arrivals}


def _arrivals(connection_string: str, rows: int) -> float:
    """Return messages a second, as the emulator noted when each of them arrived."""
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_receiver(PROCESSING_QUEUES[Priority.NORMAL]) as receiver,
    ):
        [first] = receiver.peek_messages(1, sequence_number=1)
        [last] = receiver.peek_messages(1, sequence_number=rows)
    if first.enqueued_time_utc is None or last.enqueued_time_utc is None:
        msg = "the emulator did not say when a message arrived"
        raise ValueError(msg)
    seconds = (last.enqueued_time_utc - first.enqueued_time_utc).total_seconds()
    return (rows - MESSAGES_PER_BATCH) / seconds


@contextmanager
def running_scene() -> Iterator[Scene]:
    """Start a database server and a storage account."""
    with run_folder("bench") as folder:
        scene = Scene(folder)
        scene.postgres.start()
        scene.azurite.start()
        try:
            yield scene
        finally:
            scene.azurite.stop()
            scene.postgres.stop()


def measure() -> list[Row]:
    """Return messages a second of both sides, and megabytes of memory at two sizes.

    What was sent at the last cursor value is kept, so where all rows have one, all of them are.
    """
    with running_scene() as scene:
        return [
            _speed(scene),
            _memory(scene, "detection, peak MB", "1 millisecond"),
            _memory(scene, "peak MB, one cursor value", "0"),
        ]


def _speed(scene: Scene) -> Row:
    scene.fill("speed", ROWS)
    ours: list[float] = []
    other: list[float] = []
    for number in range(1, _ROUNDS + 1):
        for side, rates in (("detect", ours), ("send", other)):
            measured = scene.run(f"{side}{number}", side, "speed")
            rates.append(measured["rows"] / measured["seconds"])
        print(f"detection {number}/{_ROUNDS}: {ours[-1]:.0f}/s, bare send {other[-1]:.0f}/s")
    return compared(f"detection, {ROWS} rows of 20 fields / bare SDK send", ours, other, _BAR)


def _memory(scene: Scene, what: str, apart: str) -> Row:
    peaks = []
    for rows in _MEMORY_ROWS:
        name = f"memory{rows}apart{apart.replace(' ', '')}"
        scene.fill(name, rows, apart)
        peaks.append(scene.run(name, "detect", name)["peak_kb"] / 1024)
    few, many = _MEMORY_ROWS
    small, large = peaks
    print(f"{what}: {small:.0f} at {few:,} rows, {large:.0f} at {many:,}")
    return compared(f"{what}, {many:,} rows / {few:,}", [large], [small], None)
