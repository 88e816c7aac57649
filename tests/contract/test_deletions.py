"""`DeletionService` on the fake table and on Azurite's tables."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import TableEntity, TableServiceClient

from delivery.errors import ConfigurationError, UnavailableError
from devstack.azurite import Azurite
from models.queue_message import JobActionType, QueueMessage
from services.processing.deletions import DELETIONS, DeletionService
from tests.builders import a_job, a_message
from tests.fakes.services import Clock
from tests.fakes.storage import MemoryTable

JOB = a_job(skipOutdated="crm_modified_at")


def at(minute: int, key: str = "D1", **changes: Any) -> QueueMessage:
    tracker = f"2026-11-30T10:{minute:02}:00+00:00"
    return a_message(source_key=key, change_tracker=tracker, **changes)


class DeletionContract:
    def test_what_was_never_deleted_has_no_later_deletion(self, service: DeletionService) -> None:
        assert service.later_than(JOB, at(1)) is None

    @pytest.mark.parametrize(("change", "found"), [(4, at(5).change_tracker), (5, None), (6, None)])
    def test_only_a_strictly_later_deletion_counts(
        self, service: DeletionService, change: int, found: str | None
    ) -> None:
        service.note(JOB, at(5))
        assert service.later_than(JOB, at(change)) == found

    @pytest.mark.parametrize("minutes", [(5, 7), (7, 5), (7, 7)])
    def test_the_latest_deletion_is_kept_whatever_the_order(
        self, service: DeletionService, minutes: tuple[int, int]
    ) -> None:
        for minute in minutes:
            service.note(JOB, at(minute))
        assert service.later_than(JOB, at(6)) == at(7).change_tracker

    def test_deletions_noted_at_once_leave_the_latest(self, service: DeletionService) -> None:
        def note(minute: int) -> None:
            # A race that is lost again and again is told, and the message comes again.
            for _ in range(20):
                with suppress(UnavailableError):
                    service.note(JOB, at(minute))
                    return

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(note, range(10, 26)))
        assert service.later_than(JOB, at(24)) == at(25).change_tracker

    def test_records_and_jobs_are_kept_apart(self, service: DeletionService) -> None:
        service.note(JOB, at(5, "A/B#?\\ü\n"))
        assert service.later_than(JOB, at(4, "A/B#?\\ü")) is None
        assert service.later_than(a_job(name="other"), at(4, "A/B#?\\ü\n")) is None
        assert service.later_than(JOB, at(4, "A/B#?\\ü\n")) is not None

    def test_what_was_noted_long_ago_is_forgotten(self, service: DeletionService) -> None:
        for number in range(3):
            service.note(JOB, at(5, f"D{number}"))
        now = datetime.now(UTC)
        assert service.forget_old(now - timedelta(minutes=1)) == 0
        assert service.forget_old(now + timedelta(minutes=1)) == 4, "and that there were notes"
        assert service.later_than(JOB, at(4, "D0")) is None

    def test_a_cursor_that_does_not_fit_its_type_is_named(self, service: DeletionService) -> None:
        service.note(JOB, a_message(action=JobActionType.DELETE, change_tracker="0x01"))
        with pytest.raises(ConfigurationError, match="watermark type datetime does not fit"):
            service.later_than(JOB, at(1))


class TestOnTheFake(DeletionContract):
    @pytest.fixture
    def service(self) -> DeletionService:
        return DeletionService(MemoryTable(), now=Clock())  # type: ignore[arg-type] # the fake's few methods


@pytest.mark.integration
class TestOnAzurite(DeletionContract):
    @pytest.fixture
    def service(self, azurite: Azurite) -> Iterator[DeletionService]:
        tables = TableServiceClient.from_connection_string(azurite.connection_string())
        with tables, tables.get_table_client(DELETIONS) as table:
            service = DeletionService(table, now=lambda: datetime.now(UTC))
            service.prepare_storage()
            service.prepare_storage()  # a second instance may start at the same time
            yield service
            for row in table.list_entities():
                table.delete_entity(row["PartitionKey"], row["RowKey"])


def test_a_job_without_deletions_is_asked_for_once_a_second_and_one_with_them_each_time() -> None:
    table, clock = MemoryTable(), Clock()
    service = DeletionService(table, now=clock, clock=clock.monotonic)  # type: ignore[arg-type] # as above
    for _ in range(10):
        service.later_than(JOB, at(1))
    assert table.reads == 1
    clock.advance(1)
    service.later_than(JOB, at(1))
    assert table.reads == 2


def test_a_clock_that_is_set_back_neither_hides_a_deletion_nor_delays_it() -> None:
    table, clock = MemoryTable(), Clock()
    upserting = DeletionService(table, now=clock, clock=clock.monotonic)  # type: ignore[arg-type] # as above
    deleting = DeletionService(table, now=clock, clock=clock.monotonic)  # type: ignore[arg-type] # as above
    assert upserting.later_than(JOB, at(4)) is None
    wait = deleting.note(JOB, at(5))
    clock.jump(-3600)
    assert deleting.note(JOB, at(5)) <= wait
    clock.advance(1)
    assert upserting.later_than(JOB, at(4)) is not None


def test_no_instance_misses_a_deletion_between_what_it_knows_and_what_is_deleted() -> None:
    """One upserts, the other deletes; time by time, with what the first one has read before."""
    for noted_at in (0.0, 0.4, 0.8, 0.999, 1.0, 1.5):
        table, clock = MemoryTable(), Clock()
        upserting = DeletionService(table, now=clock, clock=clock.monotonic)  # type: ignore[arg-type] # as above
        deleting = DeletionService(table, now=clock, clock=clock.monotonic)  # type: ignore[arg-type] # as above
        began = clock.now
        assert upserting.later_than(JOB, at(4)) is None
        clock.advance(noted_at)
        wait = deleting.note(JOB, at(5))
        # For as long as the first one may not know, the second one must not delete.
        while upserting.later_than(JOB, at(4)) is None:
            assert wait, "deleted although an upsert might not hear of it"
            clock.advance(0.1)
            wait = deleting.note(JOB, at(5))
        assert clock.now - began <= timedelta(seconds=noted_at + 1.2)
        clock.advance(5)
        assert not deleting.note(JOB, at(5))


class RestlessTable(MemoryTable):
    """A table in which somebody else is always faster."""

    def update_entity(self, *_: Any, **__: Any) -> None:
        raise ResourceModifiedError


def test_a_race_that_is_lost_again_and_again_is_told() -> None:
    service = DeletionService(RestlessTable(), now=Clock())  # type: ignore[arg-type] # as above
    service.note(JOB, at(1))
    with pytest.raises(UnavailableError, match="kept writing"):
        service.note(JOB, at(2))


class BusyTable(MemoryTable):
    """A table in which somebody notes a deletion anew while old ones are looked for."""

    meanwhile: Callable[[], object]

    def query_entities(self, *arguments: Any, **named: Any) -> Iterator[TableEntity]:
        found = list(super().query_entities(*arguments, **named))
        self.meanwhile()
        return iter(found)


def test_what_is_noted_anew_meanwhile_is_not_forgotten() -> None:
    table, clock = BusyTable(), Clock()
    service = DeletionService(table, now=clock, clock=clock.monotonic)  # type: ignore[arg-type] # as above
    service.note(JOB, at(1))
    table.meanwhile = lambda: service.note(JOB, at(3))
    service.forget_old(datetime.now(UTC) + timedelta(minutes=1))
    table.meanwhile = lambda: None
    assert service.later_than(JOB, at(2)) == at(3).change_tracker


@pytest.mark.integration
def test_a_table_that_is_missing_is_not_taken_for_one_without_notes(azurite: Azurite) -> None:
    tables = TableServiceClient.from_connection_string(azurite.connection_string())
    with tables, tables.get_table_client("nowhere") as table:
        service = DeletionService(table, now=lambda: datetime.now(UTC))
        with pytest.raises(UnavailableError, match=r"table 'deletions'.*TableNotFound"):
            service.later_than(JOB, at(1))
        with pytest.raises(UnavailableError, match=r"table 'deletions'.*TableNotFound"):
            service.note(JOB, at(1))
