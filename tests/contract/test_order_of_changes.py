"""Changes of one record in any order, also at once, end as the last of them says."""

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.sql import SqlConnector
from delivery.errors import OutdatedError
from devstack.postgres import Postgres
from models.configuration import Configuration
from models.queue_message import JobActionType, QueueMessage
from services.payloads import PayloadService
from services.processing.deletions import DeletionService
from services.processing.execution import ProcessQueueMessageService
from services.processing.turns import Postponed
from services.tracing import TracingService
from tests.builders import a_connection, a_job, a_mapping
from tests.fakes.bus import RecordingPost
from tests.fakes.services import Clock, FixedInitialization, MemoryMetrics
from tests.fakes.storage import MemoryBlobs, MemoryTable

_TABLE = """
CREATE TABLE partner (partner_number text PRIMARY KEY, partner_name text,
                      changed_at timestamp NOT NULL)
"""

CONFIGURATION = Configuration.of(
    [a_connection(), a_connection(name="erp", url="${ERP_DATABASE_URL}")],
    [
        a_mapping(
            fields=[
                {"source": "name", "target": "partner_name"},
                {"source": "modified_at", "target": "changed_at"},
            ],
            deletions={"field": "is_deleted"},
        )
    ],
    [a_job(skipOutdated="changed_at")],
)


def a_change(minute: int, *, is_deletion: bool) -> QueueMessage:
    moment = f"2026-11-30T10:{minute:02}:00"
    action = JobActionType.DELETE if is_deletion else JobActionType.NEW_UPDATE
    fields = {} if is_deletion else {"partner_name": f"name {minute}", "changed_at": moment}
    keys = {"partner_number": "D1"}
    return QueueMessage("customers-to-erp", action, "D1", moment, dict(keys), dict(fields))


class Target:
    """A real database, written through the whole processing service."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._connector = SqlConnector(engine)
        self._clock = Clock()
        self.start_over()

    def start_over(self) -> None:
        with self._engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE IF EXISTS partner"))
            connection.execute(sa.text(_TABLE))
        self._service = ProcessQueueMessageService(
            FixedInitialization(CONFIGURATION),  # type: ignore[arg-type] # the fakes' few methods
            payloads=PayloadService(MemoryBlobs()),  # type: ignore[arg-type] # as above
            deletions=DeletionService(MemoryTable(), now=self._clock, clock=self._clock.monotonic),  # type: ignore[arg-type] # as above
            post=RecordingPost(),
            metrics=MemoryMetrics().service,
            tracing=TracingService(None),
            target_of=lambda _connection: self._connector,
        )

    def apply(self, change: QueueMessage) -> bool:
        """Return whether it was applied; False means that it was outdated."""
        while True:
            try:
                return self.attempt(change)
            except Postponed as postponement:
                self._clock.advance(postponement.delay.total_seconds())

    def attempt(self, change: QueueMessage) -> bool:
        """Do the same, but raise Postponed where it is too early."""
        work = self._service.read(change.to_body())
        try:
            self._service.apply(work, nullcontext)
        except OutdatedError:
            return False
        return True

    def let_time_pass(self, delay: timedelta) -> None:
        self._clock.advance(delay.total_seconds())

    def names(self) -> list[str]:
        with self._engine.connect() as connection:
            return list(connection.scalars(sa.text("SELECT partner_name FROM partner")))


def expected(changes: list[QueueMessage]) -> list[str]:
    last = max(changes, key=lambda change: change.change_tracker)
    return [] if last.action is JobActionType.DELETE else [str(last.fields["partner_name"])]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'target.db'}", isolation_level="AUTOCOMMIT")
    yield Target(engine)
    engine.dispose()


CHANGES = st.lists(st.booleans(), min_size=1, max_size=6).map(
    lambda kinds: [a_change(minute, is_deletion=kind) for minute, kind in enumerate(kinds)]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, data=st.data())
def test_any_order_with_repeats_ends_as_the_last_change_says(
    target: Target, changes: list[QueueMessage], data: st.DataObject
) -> None:
    target.start_over()
    again = data.draw(st.lists(st.sampled_from(changes), max_size=3))
    queue = list(data.draw(st.permutations([*changes, *again])))
    while queue:
        change = queue.pop(0)
        try:
            target.attempt(change)
        except Postponed as postponement:
            # It comes back at any time after the delay: before, amid or after the others.
            queue.insert(data.draw(st.integers(0, len(queue))), change)
            target.let_time_pass(postponement.delay)
    assert target.names() == expected(changes)


def test_an_update_that_comes_after_the_deletion_does_not_bring_the_record_back(
    target: Target,
) -> None:
    assert target.apply(a_change(2, is_deletion=True))
    assert not target.apply(a_change(1, is_deletion=False))
    assert target.names() == []
    assert target.apply(a_change(3, is_deletion=False)), "the record was made anew"
    assert target.names() == ["name 3"]


@pytest.mark.integration
@pytest.mark.parametrize("kinds", [(False, False), (False, True), (True, False)])
def test_two_messages_of_one_record_at_once_end_with_the_newer(
    postgres: Postgres, kinds: tuple[bool, bool]
) -> None:
    name = f"order{kinds[0]:d}{kinds[1]:d}"
    postgres.create_database(name)
    engine = sa.create_engine(postgres.sqlalchemy_url(name), isolation_level="AUTOCOMMIT")
    target = Target(engine)
    changes = [a_change(minute, is_deletion=kind) for minute, kind in enumerate(kinds)]
    for number in range(60):
        target.start_over()
        _apply_at_once(target, changes if number % 2 else changes[::-1])
        assert target.names() == expected(changes)
    engine.dispose()


def _apply_at_once(target: Target, changes: list[QueueMessage]) -> None:
    barrier = threading.Barrier(len(changes))

    def apply(change: QueueMessage) -> None:
        barrier.wait()
        target.apply(change)

    threads = [threading.Thread(target=apply, args=[change]) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
