"""What a real PostgreSQL refuses: the class of the error, its reason, no value of the record."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from connectors.sql import SqlConnector
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from delivery.errors import ConfigurationError, RejectedError, UnavailableError
from devstack.postgres import Postgres
from models.watermark import WatermarkValue
from tests.builders import a_job, a_mapping, a_message

pytestmark = pytest.mark.integration

MAPPING = a_mapping(targetEntity="odd")


def an_engine(url: sa.URL) -> sa.Engine:
    text = url.render_as_string(hide_password=False)
    return open_engine("erp", text, pool_size=1, limits=Limits())


@pytest.fixture(scope="module")
def module_engine(postgres: Postgres) -> Iterator[sa.Engine]:
    postgres.create_database("refusals")
    engine = an_engine(sa.make_url(postgres.sqlalchemy_url("refusals")))
    yield engine
    engine.dispose()


@pytest.fixture
def engine(module_engine: sa.Engine) -> sa.Engine:
    run(
        module_engine,
        "DROP TABLE IF EXISTS odd",
        "DROP TYPE IF EXISTS mood",
        "CREATE TYPE mood AS ENUM ('happy', 'sad')",
        """
        CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN RAISE EXCEPTION ''customer % is blocked'', NEW.value; END'
        """,
    )
    return module_engine


def run(engine: sa.Engine, *statements: str) -> None:
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def write(engine: sa.Engine, value: object) -> None:
    message = a_message(keys={"id": "1"}, fields={"value": value})
    SqlConnector(engine).upsert(message, MAPPING, a_job())


def refused(engine: sa.Engine, value: object) -> str:
    with pytest.raises(RejectedError) as caught:
        write(engine, value)
    assert caught.value.__suppress_context__
    return str(caught.value)


@pytest.mark.parametrize(
    "kind", ["boolean", "integer", "mood", "interval", "inet", "money", "json", "uuid", "date"]
)
@pytest.mark.parametrize("value", ["GEHEIM", 'it\'s "GEHEIM" and\n"GEHEIM', "' GEHEIM"])
def test_no_type_of_column_quotes_a_value_that_it_refuses(
    engine: sa.Engine, kind: str, value: str
) -> None:
    run(engine, f"CREATE TABLE odd (id text PRIMARY KEY, value {kind})")
    assert "GEHEIM" not in refused(engine, value)


@pytest.mark.parametrize(
    ("definition", "value", "reason"),
    [
        ("text NOT NULL", None, 'null value in column "value" .* violates not-null constraint'),
        ("text UNIQUE", "GEHEIM", 'violates unique constraint "odd_value_key"'),
        ("text CHECK (value = 'x')", "GEHEIM", 'violates check constraint "odd_value_check"'),
        ("varchar(3)", "GEHEIM", r"value too long for type character varying\(3\)"),
        ("numeric(3)", "4711", "numeric field overflow"),
        ("smallint", 47_110, "smallint out of range"),
        ("interval", "GEHEIM", "invalid input syntax for type interval: …"),
        ("text", "GEHEIM\0", "NUL"),
    ],
)
def test_a_refusal_keeps_the_databases_reason(
    engine: sa.Engine, definition: str, value: object, reason: str
) -> None:
    run(
        engine,
        f"CREATE TABLE odd (id text PRIMARY KEY, value {definition})",
        "INSERT INTO odd VALUES ('0', 'GEHEIM')" if "UNIQUE" in definition else "SELECT 1",
    )
    text = refused(engine, value)
    assert "GEHEIM" not in text
    assert "4711" not in text
    with pytest.raises(RejectedError, match=f"^table 'odd': .*{reason}"):
        write(engine, value)


def test_what_a_trigger_refuses_is_rejected_with_its_reason_and_without_the_value(
    engine: sa.Engine,
) -> None:
    run(
        engine,
        "CREATE TABLE odd (id text PRIMARY KEY, value text)",
        "CREATE TRIGGER t BEFORE INSERT ON odd FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    assert refused(engine, "Dr. O'Geheim") == "table 'odd': customer … is blocked"


def test_a_key_without_a_unique_constraint_says_what_to_add(engine: sa.Engine) -> None:
    run(engine, "CREATE TABLE odd (id text, value text)")
    with pytest.raises(ConfigurationError, match=r"'odd'.*unique constraint on exactly these"):
        write(engine, "x")


def test_a_table_that_was_changed_is_seen_again_after_one_failure(engine: sa.Engine) -> None:
    connector = SqlConnector(engine)
    message = a_message(keys={"id": "1"}, fields={"value": "1"})
    for kind in ("text", "integer"):
        run(engine, "DROP TABLE IF EXISTS odd")
        with pytest.raises(ConfigurationError):
            connector.upsert(message, MAPPING, a_job())
        run(engine, f"CREATE TABLE odd (id text PRIMARY KEY, value {kind})")
        connector.upsert(message, MAPPING, a_job())


def test_a_column_that_holds_more_now_is_seen_after_one_failure(engine: sa.Engine) -> None:
    run(engine, "CREATE TABLE odd (id text PRIMARY KEY, value integer)")
    connector = SqlConnector(engine)
    for value in (*"123456", "x"):
        message = a_message(keys={"id": "1"}, fields={"value": value})
        if value == "x":
            run(engine, "ALTER TABLE odd ALTER value TYPE text")
            with pytest.raises(RejectedError):
                connector.upsert(message, MAPPING, a_job())
        connector.upsert(message, MAPPING, a_job())


def test_a_source_that_was_altered_is_read_after_one_failure(engine: sa.Engine) -> None:
    run(
        engine,
        "CREATE TABLE odd (id text PRIMARY KEY, value integer, at timestamptz)",
        "INSERT INTO odd VALUES ('1', 1, now())",
    )
    reading = an_engine(engine.url)
    connector = SqlConnector(reading)
    mapping = a_mapping(
        sourceEntity="odd",
        keys=[{"source": "id", "target": "partner_number"}],
        fields=[{"source": "value", "target": "partner_name"}],
    )
    job = a_job(watermark={"field": "at", "type": "datetime"})
    beginning = WatermarkValue.initialize("datetime", None)

    def read() -> int:
        return len(list(connector.retrieve_changes(mapping, job, beginning, None)))

    for _ in range(8):  # so often that the driver prepares the statement
        read()
    run(engine, "ALTER TABLE odd ALTER value TYPE bigint")
    with pytest.raises(ConfigurationError, match="cached plan"):
        read()
    assert read() == 1
    reading.dispose()


def test_a_reference_whose_column_was_added_is_found_after_one_failure(engine: sa.Engine) -> None:
    run(
        engine,
        "DROP TABLE IF EXISTS place",
        "CREATE TABLE place (code text PRIMARY KEY)",
        "INSERT INTO place VALUES ('x')",
        "CREATE TABLE odd (id text PRIMARY KEY, value text)",
    )
    reference = {"entity": "place", "key": "code", "value": "label"}
    mapping = a_mapping(
        targetEntity="odd",
        fields=[{"source": "name", "target": "value"}],
        resolvers=[{"field": "value", "at": "target", **reference}],
    )
    connector, message = SqlConnector(engine), a_message(keys={"id": "1"}, fields={"value": "x"})
    with pytest.raises(ConfigurationError, match="label"):
        connector.upsert(message, mapping, a_job())
    run(engine, "ALTER TABLE place ADD label text")
    connector.upsert(message, mapping, a_job())


def test_a_lock_that_is_not_given_in_time_is_unavailable(engine: sa.Engine) -> None:
    run(engine, "CREATE TABLE odd (id text PRIMARY KEY, value text)")
    write(engine, "x")
    with engine.connect() as holder:
        holder.execute(sa.text("BEGIN"))
        holder.execute(sa.text("UPDATE odd SET value = 'y'"))
        with engine.connect() as other:
            other.execute(sa.text("SET lock_timeout = '100ms'"))
        with pytest.raises(UnavailableError, match="lock timeout"):
            write(engine, "z")
        holder.execute(sa.text("ROLLBACK"))


@pytest.mark.parametrize("code", ["serialization_failure", "deadlock_detected", "query_canceled"])
def test_what_may_succeed_when_tried_again_is_unavailable(engine: sa.Engine, code: str) -> None:
    run(
        engine,
        "CREATE TABLE odd (id text PRIMARY KEY, value text)",
        f"""
        CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN RAISE ''try again'' USING ERRCODE = ''{code}''; END'
        """,
        "CREATE TRIGGER t BEFORE INSERT ON odd FOR EACH ROW EXECUTE FUNCTION fail()",
    )
    with pytest.raises(UnavailableError, match="try again"):
        write(engine, "x")
