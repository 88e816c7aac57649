"""Detection over a real SQL source while others write: nothing is lost, and it comes to rest."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.sql import SqlConnector
from delivery.errors import UnavailableError
from services.detection.job_run import JobRun, JobRunner, RunOptions
from services.detection.watermarks import WatermarkService
from services.outgoing import OutgoingMessage
from tests.builders import a_configuration, a_job
from tests.fakes.storage import MemoryBlobs, MemoryTable

_SQLITE_TIME = "%Y-%m-%d %H:%M:%S.%f"
START = datetime(2026, 11, 30, 8, tzinfo=UTC)


class KillingSender:
    """Keeps what was flushed; dies when it is told to, with what it had not sent."""

    def __init__(self) -> None:
        self.arrived: list[OutgoingMessage] = []
        self.pending: list[OutgoingMessage] = []
        self.dies_at: int | None = None

    def add_message_or_send(self, message: OutgoingMessage) -> None:
        self.pending.append(message)
        if len(self.pending) == 3:
            self.flush_batch()

    def flush_batch(self) -> None:
        if self.dies_at is not None and len(self.arrived) >= self.dies_at:
            self.pending.clear()
            msg = "killed"
            raise UnavailableError(msg)
        self.arrived += self.pending
        self.pending.clear()


class Source:
    """A table of customers whose cursor is coarse: several writes share a value."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self.minute = 0
        self._writes = 0
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE IF EXISTS customer"))
            connection.execute(
                sa.text(
                    "CREATE TABLE customer "
                    "(number TEXT PRIMARY KEY, name TEXT, modified_at TIMESTAMP)"
                )
            )

    def write(self, number: int, step: int) -> None:
        self.minute += step
        self._writes += 1
        with self._engine.begin() as connection:
            connection.execute(
                sa.text(
                    "INSERT INTO customer VALUES (:number, :name, :at) ON CONFLICT (number) "
                    "DO UPDATE SET name = excluded.name, modified_at = excluded.modified_at"
                ),
                {
                    "number": f"D{number}",
                    "name": f"version {self._writes}",
                    "at": (START + timedelta(minutes=self.minute)).strftime(_SQLITE_TIME),
                },
            )

    def content(self) -> dict[str, str]:
        with self._engine.connect() as connection:
            return {
                row.number: row.name
                for row in connection.execute(sa.text("SELECT number, name FROM customer"))
            }


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/source.db", isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@contextmanager
def before_each_page(engine: sa.Engine, act: Callable[[], None]) -> Iterator[None]:
    """Let somebody act whenever changes are about to be read: the pages of a run, and its end."""

    def listen(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT customer"):
            act()

    sa.event.listen(engine, "before_cursor_execute", listen)
    try:
        yield
    finally:
        sa.event.remove(engine, "before_cursor_execute", listen)


def test_a_run_does_not_follow_its_writers(engine: sa.Engine) -> None:
    """It would pass a cursor value at which they still write, and never come back."""
    source, sender = Source(engine), KillingSender()
    connector = SqlConnector(engine, page_size=1)
    watermarks = WatermarkService(MemoryTable(), MemoryBlobs())  # type: ignore[arg-type] # the fakes' few methods
    runner = JobRunner(watermarks, source_of=lambda _: connector)
    source.write(5, 0)
    source.write(6, 0)
    # Before it looks for its end, before the first page, and so on.
    writes = [None, None, (1, 0), (7, 1)]

    def somebody_writes() -> None:
        if writes and (written := writes.pop(0)):
            source.write(*written)

    configuration = a_configuration(a_job())
    with before_each_page(engine, somebody_writes):
        for _ in range(2):
            runner.run(configuration.jobs[a_job().name], configuration, sender, RunOptions(), None)
    assert [message.source_key for message in sender.arrived] == ["D5", "D6", "D1", "D7"]


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), page_size=st.integers(1, 5), runs=st.integers(1, 5))
def test_no_row_is_lost_whatever_pages_ties_writers_kills_and_budgets(
    engine: sa.Engine, data: st.DataObject, page_size: int, runs: int
) -> None:
    source, sender = Source(engine), KillingSender()
    connector = SqlConnector(engine, page_size=page_size)
    watermarks = WatermarkService(MemoryTable(), MemoryBlobs())  # type: ignore[arg-type] # the fakes' few methods
    runner = JobRunner(watermarks, source_of=lambda _: connector)
    writes = st.tuples(st.integers(0, 7), st.integers(0, 1))

    def somebody_writes() -> None:
        if data.draw(st.booleans()):
            source.write(*data.draw(writes))

    def run(options: RunOptions) -> JobRun | None:
        configuration = a_configuration(a_job())
        try:
            return runner.run(
                configuration.jobs[a_job().name], configuration, sender, options, None
            )
        except UnavailableError:
            return None

    for _ in range(runs):
        for written in data.draw(st.lists(writes, max_size=6)):
            source.write(*written)
        sender.dies_at = data.draw(st.none() | st.integers(0, 30))
        with before_each_page(engine, somebody_writes):
            run(RunOptions(must_stop=lambda: data.draw(st.integers(0, 9)) == 0))
    sender.dies_at = None
    assert run(RunOptions()) is not None
    arrived = {
        message.source_key: orjson.loads(message.body)["fields"]["partner_name"]
        for message in sender.arrived
    }
    assert arrived == source.content()
    quiet = run(RunOptions())
    assert quiet is not None
    assert quiet.detected == 0
