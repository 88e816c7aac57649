"""What reads databases that are not run here: it compiles, with bound parameters."""

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.dialects import mssql, mysql, postgresql, sqlite

from connectors.sql.source import Names, Stream
from models.filter import Filter
from models.watermark import Cursor, WatermarkType, WatermarkValue

TABLE = sa.Table(
    "customer",
    sa.MetaData(),
    sa.Column("number", sa.String(20), primary_key=True),
    sa.Column("name", sa.String(100)),
    sa.Column("version", mssql.ROWVERSION),
    sa.Column("modified_at", sa.DateTime),
)
DIALECTS = {
    "mssql": mssql.dialect(),  # type: ignore[no-untyped-call] # SQLAlchemy's own
    "mysql": mysql.dialect(),
    "postgresql": postgresql.dialect(),  # type: ignore[no-untyped-call] # as above
    "sqlite": sqlite.dialect(),
}
STREAM = Stream.of(
    sa.create_engine("sqlite://"), TABLE, Names("modified_at", ["number"], ["name"]), 10
)
MOMENT = datetime(2026, 11, 30, 9, tzinfo=UTC)
CONDITION = TypeAdapter[Filter](Filter).validate_python(
    {"field": "name", "operator": "equals", "value": "O'Brien"}
)


def page(dialect: str) -> str:
    watermark = WatermarkValue(WatermarkType.DATETIME, "2026-11-30T10:00:00+01:00")
    cursor = Cursor(field="modified_at", type="datetime")
    select = STREAM.query(watermark, cursor, CONDITION)
    select = select.where(STREAM.behind([MOMENT, "D1"], dialect)).limit(10)
    compiled = select.compile(dialect=DIALECTS[dialect])
    assert "O'Brien" not in str(compiled)
    return " ".join(str(compiled).split())


def test_sql_server_pages_without_comparing_tuples() -> None:
    statement = page("mssql")
    assert statement.startswith("SELECT TOP __[POSTCOMPILE_param_1]")
    assert "ORDER BY customer.modified_at, customer.number" in statement
    assert "customer.modified_at > " in statement
    assert " OR customer.modified_at = " in statement


@pytest.mark.parametrize("dialect", ["mysql", "postgresql", "sqlite"])
def test_the_others_page_by_comparing_tuples(dialect: str) -> None:
    statement = page(dialect)
    assert "(customer.modified_at, customer.number) > (" in statement
    assert statement.count("LIMIT") == 1


def test_row_versions_travel_as_text_that_compares_in_their_order() -> None:
    from connectors.sql.types import to_column_value, to_tracker  # noqa: PLC0415 - used here only

    versions = [(number).to_bytes(8) for number in (1, 255, 256, 2**40)]
    trackers = [to_tracker(version) for version in versions]
    assert trackers == sorted(trackers)
    column = TABLE.c["version"]
    assert [to_column_value(column, tracker) for tracker in trackers] == versions
