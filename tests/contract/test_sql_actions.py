"""Procedures and functions, called on a real PostgreSQL."""

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from connectors.sql import SqlConnector
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from delivery.errors import ConfigurationError, RejectedError, TransitiveError
from devstack.postgres import Postgres
from models.queue_message import JobActionType, QueueMessage
from tests.builders import a_job, a_message

pytestmark = pytest.mark.integration

_SET_UP = """
DROP SCHEMA IF EXISTS sales CASCADE;
CREATE SCHEMA sales;
CREATE TABLE sales.taken (told text);
CREATE TABLE sales.country (code text PRIMARY KEY);
CREATE TABLE sales.partner (country text REFERENCES sales.country);
CREATE PROCEDURE sales.take(number text, label text = 'none') LANGUAGE sql
    AS 'INSERT INTO sales.taken VALUES (number || '' '' || coalesce(label, ''null''))';
CREATE FUNCTION sales.give(number text, label text = 'none') RETURNS SETOF int LANGUAGE sql
    AS 'INSERT INTO sales.taken VALUES (number || '' '' || label);
        SELECT * FROM generate_series(1, 3)';
CREATE PROCEDURE sales."Odd %s :name; --"("Odd "" arg %" text) LANGUAGE sql
    AS 'INSERT INTO sales.taken VALUES ("Odd "" arg %")';
CREATE PROCEDURE sales.refer(country text) LANGUAGE sql
    AS 'INSERT INTO sales.partner VALUES (country)';
CREATE PROCEDURE sales.refuse(number text) LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''customer % is blocked'', number; END';
CREATE PROCEDURE sales.refuse_by_code(number text) LANGUAGE plpgsql
    AS 'BEGIN RAISE EXCEPTION ''customer "%" is blocked'', number USING ERRCODE = ''XY123''; END';
"""


@pytest.fixture(scope="module")
def dsn(postgres: Postgres) -> str:
    postgres.create_database("actions")
    return postgres.dsn("actions")


@pytest.fixture
def engine(dsn: str) -> Iterator[sa.Engine]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_SET_UP)
    url = dsn.replace("postgresql:", "postgresql+psycopg:")
    engine = open_engine("erp", url, pool_size=1, limits=Limits())
    yield engine
    engine.dispose()


@pytest.fixture
def connector(engine: sa.Engine) -> SqlConnector:
    return SqlConnector(engine)


def invoke(
    connector: SqlConnector, name: str, message: QueueMessage, kind: str = "procedure"
) -> None:
    connector.invoke_action(message, a_job(action={"name": name, "kind": kind}))


def an_invocation(**changes: object) -> QueueMessage:
    values = {"keys": {"number": "GEHEIM"}, "fields": {}, **changes}
    return a_message(action=JobActionType.INVOKE_ACTION, **values)


def taken(engine: sa.Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.execute(sa.text("SELECT told FROM sales.taken")).scalars())


@pytest.mark.parametrize(
    ("name", "kind"), [("sales.take", "procedure"), ("sales.give", "function")]
)
def test_a_routine_is_called_once_with_arguments_by_name(
    engine: sa.Engine, connector: SqlConnector, name: str, kind: str
) -> None:
    message = an_invocation(keys={"label": "last"}, fields={"number": "first"})
    invoke(connector, name, message, kind)
    assert taken(engine) == ["first last"]


def test_an_argument_that_the_message_lacks_has_its_default_and_null_is_null(
    engine: sa.Engine, connector: SqlConnector
) -> None:
    for fields in ({}, {"label": None}):
        invoke(connector, "sales.take", an_invocation(fields=fields))
    assert taken(engine) == ["GEHEIM none", "GEHEIM null"]


def test_names_of_whatever_letters_are_only_names(
    engine: sa.Engine, connector: SqlConnector
) -> None:
    message = an_invocation(keys={'Odd " arg %': "x"})
    invoke(connector, "sales.Odd %s :name; --", message)
    assert taken(engine) == ["x"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("numeric(9,2)", "1234.50", "1234.50"),
        ("numeric", 12, "12"),
        ("numeric", 0.5, "0.5"),
        ("integer", 12, "12"),
        ("integer", "12", "12"),
        ("bigint", 2**62, str(2**62)),
        ("text", 12, "12"),
        ("double precision", 0.1, "0.1"),
        ("boolean", True, "true"),
        ("boolean", "false", "false"),
        ("timestamptz", "2026-11-30T10:00:00+02:00", "2026-11-30 08:00:00+00"),
        ("date", "2026-11-30", "2026-11-30"),
        ("uuid", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        ("jsonb", '{"a": [1, "ü"]}', '{"a": [1, "ü"]}'),
        ("text", "O'Brien; --", "O'Brien; --"),
        ("text", None, None),
    ],
)
def test_a_value_becomes_what_the_parameter_is(
    engine: sa.Engine, connector: SqlConnector, kind: str, value: object, expected: str | None
) -> None:
    take = "CREATE PROCEDURE sales.typed(number {}) LANGUAGE sql AS 'INSERT INTO {}'"
    with engine.connect() as connection:
        connection.exec_driver_sql("SET timezone = 'UTC'")
        connection.exec_driver_sql(take.format(kind, "sales.taken VALUES (number::text)"))
    body = an_invocation(keys={"number": value}).to_body()
    invoke(connector, "sales.typed", QueueMessage.from_body(body))
    assert taken(engine) == [expected]


def test_a_missing_reference_inside_a_routine_is_transitive(connector: SqlConnector) -> None:
    message = an_invocation(keys={"country": "GEHEIM"})
    with pytest.raises(TransitiveError, match=r"routine 'sales.refer'.*foreign key") as caught:
        invoke(connector, "sales.refer", message)
    assert "GEHEIM" not in str(caught.value)


@pytest.mark.parametrize("name", ["sales.refuse", "sales.refuse_by_code"])
def test_what_a_routine_refuses_is_rejected_with_its_reason_and_without_the_value(
    connector: SqlConnector, name: str
) -> None:
    with pytest.raises(RejectedError, match="customer … is blocked") as caught:
        invoke(connector, name, an_invocation())
    assert "GEHEIM" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_value_that_a_parameter_cannot_hold_is_rejected(
    engine: sa.Engine, connector: SqlConnector
) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE PROCEDURE sales.typed(number int) LANGUAGE sql AS ''")
    with pytest.raises(RejectedError, match="invalid input syntax for type integer") as caught:
        invoke(connector, "sales.typed", an_invocation())
    assert "GEHEIM" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "fields"),
    [
        ("sales.nowhere", "procedure", {}),
        ("nowhere.take", "procedure", {}),
        ("sales.take", "function", {}),
        ("sales.give", "procedure", {}),
        ("sales.take", "procedure", {"colour": "red"}),
    ],
)
def test_a_routine_that_does_not_exist_like_this_is_named(
    connector: SqlConnector, name: str, kind: str, fields: dict[str, str]
) -> None:
    with pytest.raises(ConfigurationError, match=f"routine '{name}'"):
        invoke(connector, name, an_invocation(fields=fields), kind)
