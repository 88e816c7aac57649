"""Rows that are there while the message lacks some of their columns, and who writes them last."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from connectors.sql import SqlConnector
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from delivery.errors import DeliveryError, OutdatedError, RejectedError
from devstack.postgres import Postgres
from tests.builders import a_job, a_mapping, a_message
from tests.contract.remote_system import DELETE, GUARDED, a_change, a_deletion, at

MAPPING = a_mapping()
_PARTNER = """
CREATE TABLE partner (
    partner_number varchar(20) PRIMARY KEY, partner_name text, partner_changed_at {moment},
    {other}
)
"""
_REQUIRED = "customer text NOT NULL, filled text NOT NULL DEFAULT 'x'"
_CHECKED = "customer text, CHECK (customer IS NOT NULL)"

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def postgres_url(postgres: Postgres) -> str:
    postgres.create_database("updates")
    return postgres.sqlalchemy_url("updates")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sa.Engine]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/test.db"
    else:
        url = request.getfixturevalue("postgres_url")
    yield from opened(url)


@pytest.fixture
def on_postgresql(postgres_url: str) -> Iterator[sa.Engine]:
    yield from opened(postgres_url)


def opened(url: str) -> Iterator[sa.Engine]:
    engine = open_engine("erp", url, pool_size=5, limits=Limits())
    run(engine, "DROP TABLE IF EXISTS partner")
    yield engine
    engine.dispose()


def run(engine: sa.Engine, *statements: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    with engine.connect() as connection:
        for statement in statements:
            result = connection.execute(sa.text(statement))
            rows = [tuple(row) for row in result] if result.returns_rows else []
    return rows


def create(engine: sa.Engine, other: str) -> None:
    moment = "datetime" if engine.dialect.name == "sqlite" else "timestamptz"
    run(engine, _PARTNER.format(moment=moment, other=other))


def insert(engine: sa.Engine, number: str) -> None:
    run(
        engine,
        "INSERT INTO partner (partner_number, partner_name, customer) "  # noqa: S608 - a test's own
        f"VALUES ('{number}', 'old', 'C7')",
    )


def names(engine: sa.Engine) -> list[tuple[Any, ...]]:
    return run(engine, "SELECT partner_number, partner_name, customer FROM partner ORDER BY 1")


@contextlib.contextmanager
def counted(engine: sa.Engine) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    yield statements
    sa.event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("other", [_REQUIRED, _CHECKED])
@pytest.mark.parametrize("job", [a_job(), GUARDED])
def test_what_the_message_lacks_stays_though_the_table_requires_it(
    engine: sa.Engine, other: str, job: Any
) -> None:
    create(engine, other)
    insert(engine, "D1")
    connector = SqlConnector(engine)
    connector.upsert(a_change("new", 5), MAPPING, job)
    connector.upsert(a_message(fields={}), MAPPING, job)
    connector.upsert(a_message(fields={"partner_name": "newer"}), MAPPING, job)
    assert names(engine) == [("D1", "newer", "C7")]


@pytest.mark.parametrize("other", [_REQUIRED, _CHECKED])
@pytest.mark.parametrize("job", [a_job(), GUARDED])
def test_a_record_that_is_missing_is_refused_for_what_the_message_lacks(
    engine: sa.Engine, other: str, job: Any
) -> None:
    create(engine, other)
    connector = SqlConnector(engine)
    for message in (a_change("GEHEIM", 5), a_message(fields={})):
        with pytest.raises(RejectedError, match=r"(?i)not.null|check") as caught:
            connector.upsert(message, MAPPING, job)
        assert "GEHEIM" not in str(caught.value)
    assert names(engine) == []


@pytest.mark.parametrize("other", [_REQUIRED, _CHECKED])
def test_an_older_change_of_part_of_a_record_is_outdated(engine: sa.Engine, other: str) -> None:
    create(engine, other)
    insert(engine, "D1")
    connector = SqlConnector(engine)
    for name, minute in (("new", 5), ("same", 5)):
        connector.upsert(a_change(name, minute), MAPPING, GUARDED)
    with pytest.raises(OutdatedError, match="'partner_changed_at'"):
        connector.upsert(a_change("old", 4), MAPPING, GUARDED)
    assert names(engine) == [("D1", "same", "C7")]


def test_only_what_may_lack_columns_costs_more_than_one_statement(engine: sa.Engine) -> None:
    create(engine, _REQUIRED)
    connector = SqlConnector(engine)
    whole = a_message(fields={"partner_name": "x", "customer": "C7"})
    part = a_message(fields={"partner_name": "y"})
    for message in (whole, part):
        connector.upsert(message, MAPPING, a_job())
        with counted(engine) as statements:
            connector.upsert(message, MAPPING, a_job())
        assert len(statements) == 1
    assert names(engine) == [("D1", "y", "C7")]


@contextlib.contextmanager
def between_write_and_look(engine: sa.Engine, act: Callable[[], object]) -> Iterator[None]:
    """Let somebody act once, before the row is asked why nothing was written."""
    left = [act]

    def come_between(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT CASE") and left:
            left.pop()()

    sa.event.listen(engine, "before_cursor_execute", come_between)
    yield
    assert not left
    sa.event.remove(engine, "before_cursor_execute", come_between)


def test_a_newer_row_that_goes_beside_a_write_does_not_keep_it_out(engine: sa.Engine) -> None:
    create(engine, "customer text")
    connector = SqlConnector(engine)
    connector.upsert(a_change("newer", 9), MAPPING, GUARDED)
    with between_write_and_look(engine, lambda: run(engine, "DELETE FROM partner")):
        connector.upsert(a_change("new", 5), MAPPING, GUARDED)
    assert names(engine) == [("D1", "new", None)]


def test_an_older_row_that_comes_beside_a_deletion_is_deleted(engine: sa.Engine) -> None:
    create(engine, "customer text")
    connector = SqlConnector(engine)

    def somebody_writes() -> None:
        connector.upsert(a_change("older", 4), MAPPING, GUARDED)

    with between_write_and_look(engine, somebody_writes):
        connector.delete(a_deletion(at(5).isoformat()), MAPPING, GUARDED)
    assert names(engine) == []


def test_a_constraint_that_refuses_a_value_does_not_make_us_read_the_table_again(
    engine: sa.Engine,
) -> None:
    create(engine, "customer text CHECK (customer <> 'GEHEIM')")
    connector = SqlConnector(engine)
    message = a_message(fields={"customer": "GEHEIM"})
    for attempt in range(2):
        with counted(engine) as statements, pytest.raises(RejectedError):
            connector.upsert(message, MAPPING, a_job())
        if attempt:
            assert not [text for text in statements if "partner_number" not in text]


_FILL = """
CREATE OR REPLACE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN NEW.customer := coalesce(NEW.customer, ''C7''); RETURN NEW; END'
"""
_SKIP = """
CREATE OR REPLACE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'
"""


def on(event: str, function: str) -> str:
    return f"CREATE TRIGGER t BEFORE {event} ON partner FOR EACH ROW EXECUTE FUNCTION {function}()"


@pytest.mark.integration
@pytest.mark.parametrize("with_guard", [True, False])
def test_two_changes_of_parts_at_once_end_with_the_newer(
    on_postgresql: sa.Engine, *, with_guard: bool
) -> None:
    create(on_postgresql, _REQUIRED)
    run(on_postgresql, _FILL, on("INSERT", "fill"))
    connector = SqlConnector(on_postgresql)
    job = GUARDED if with_guard else a_job()

    def write(minute: int) -> None:
        with contextlib.suppress(OutdatedError):
            connector.upsert(a_change(str(minute), minute), MAPPING, job)

    with ThreadPoolExecutor(3) as threads:
        for attempt in range(60):
            run(on_postgresql, "DELETE FROM partner")
            list(threads.map(write, sorted((5, 6, 7), reverse=attempt % 2 == 0)))
            [(_, name, _)] = names(on_postgresql)
            assert name == "7" or not with_guard


@pytest.mark.integration
def test_part_of_a_record_that_another_delivery_inserts_meanwhile_is_written(
    on_postgresql: sa.Engine,
) -> None:
    create(on_postgresql, _REQUIRED)
    connector, others = SqlConnector(on_postgresql), SqlConnector(on_postgresql)
    whole = a_message(fields={"partner_name": "first", "customer": "C7"})
    came: list[str] = []

    def come_between(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT 0") and not came:
            came.append(statement)
            others.upsert(whole, MAPPING, a_job())

    sa.event.listen(on_postgresql, "after_cursor_execute", come_between)
    connector.upsert(a_message(fields={"partner_name": "second"}), MAPPING, a_job())
    assert came
    assert names(on_postgresql) == [("D1", "second", "C7")]


@pytest.mark.integration
@pytest.mark.parametrize("event", ["INSERT", "UPDATE", "DELETE"])
@pytest.mark.parametrize("update_only", [True, False])
@pytest.mark.parametrize("other", [_REQUIRED, "customer text"])
def test_what_a_trigger_skips_is_rejected_by_a_job_that_skips_what_is_outdated(
    on_postgresql: sa.Engine, event: str, other: str, *, update_only: bool
) -> None:
    create(on_postgresql, other)
    if event != "INSERT":
        insert(on_postgresql, "D1")
    run(on_postgresql, _SKIP, on(event, "skip"))
    connector = SqlConnector(on_postgresql)
    change = a_change("new", 5)
    change.update_only = update_only

    def outcome(job: Any) -> type[DeliveryError] | None:
        try:
            if event == "DELETE":
                connector.delete(a_deletion(at(5).isoformat()), MAPPING, job)
            else:
                connector.upsert(change, MAPPING, job)
        except DeliveryError as error:
            return type(error)
        return None

    if event == "INSERT" and update_only:
        expected: list[Any] = [OutdatedError, OutdatedError]
    else:
        expected = [None, RejectedError]
    assert [outcome(a_job()), outcome(GUARDED)] == expected


@pytest.mark.integration
def test_what_others_refer_to_is_not_waited_for_when_its_key_changes(
    on_postgresql: sa.Engine,
) -> None:
    create(on_postgresql, "customer text UNIQUE, parent text REFERENCES partner (customer)")
    insert(on_postgresql, "D1")
    run(on_postgresql, "INSERT INTO partner (partner_number, parent) VALUES ('D2', 'C7')")
    connector = SqlConnector(on_postgresql)
    with pytest.raises(RejectedError, match="foreign key"):
        connector.upsert(a_message(fields={"customer": "C8"}), MAPPING, a_job())
    with pytest.raises(RejectedError, match="foreign key"):
        connector.delete(a_message(action=DELETE, fields={}), MAPPING, a_job())
