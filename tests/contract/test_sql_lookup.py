"""Keys that a database finds though it spells them otherwise."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from connectors.fields import Reference
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from connectors.sql.lookup import SqlLookup
from delivery.errors import ConfigurationError
from devstack.postgres import Postgres

REFERENCE = Reference("place", "code", "label")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = open_engine("erp", f"sqlite:///{tmp_path}/x.db", pool_size=1, limits=Limits())
    yield engine
    engine.dispose()


def fill(engine: sa.Engine, kind: str, *codes: object) -> SqlLookup:
    with engine.connect() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS place"))
        connection.execute(sa.text(f"CREATE TABLE place (code {kind}, label text)"))
        for code in codes:
            connection.execute(
                sa.text("INSERT INTO place VALUES (:code, :label)"),
                {"code": code, "label": f"of {code}"},
            )
    return SqlLookup(engine)


def check(lookup: SqlLookup, keys: set[Any], expected: dict[Any, str]) -> None:
    assert lookup.find(REFERENCE, keys) == expected
    for key in keys:
        alone = {key: expected[key]} if key in expected else {}
        assert lookup.find(REFERENCE, {key}) == alone


def test_capital_letters_where_the_column_does_not_tell_them_apart(engine: sa.Engine) -> None:
    lookup = fill(engine, "text COLLATE NOCASE PRIMARY KEY", "Mail@X", "b", "c")
    check(lookup, {"mail@x", "MAIL@X"}, {"mail@x": "of Mail@X", "MAIL@X": "of Mail@X"})
    check(lookup, {"mail@x", "Mail@X", "B", "d"},
          {"mail@x": "of Mail@X", "Mail@X": "of Mail@X", "B": "of b"})  # fmt: skip


def test_capital_letters_where_the_column_tells_them_apart(engine: sa.Engine) -> None:
    lookup = fill(engine, "text PRIMARY KEY", "A", "b", "B", "c ")
    check(lookup, {"a", "A", "b", "B", "c"}, {"A": "of A", "b": "of b", "B": "of B"})


def test_blanks_that_the_column_does_not_tell_apart(engine: sa.Engine) -> None:
    lookup = fill(engine, "text COLLATE RTRIM PRIMARY KEY", "a  ", "b")
    check(lookup, {"a", "a ", "b ", "A"}, {"a": "of a  ", "a ": "of a  ", "b ": "of b"})


def test_keys_of_one_number_all_find_it(engine: sa.Engine) -> None:
    lookup = fill(engine, "integer PRIMARY KEY", 1, 2)
    check(lookup, {"1", "01", "x", "3"}, {"1": "of 1", "01": "of 1"})


@pytest.mark.parametrize("keys", [{"geheim"}, {"geheim", "x"}, {"GEHEIM", "x"}])
@pytest.mark.parametrize("codes", [("Geheim", "GEHEIM"), ("Geheim", "Geheim")])
def test_several_rows_of_one_key_are_told_and_not_chosen_from(
    engine: sa.Engine, keys: set[Any], codes: tuple[str, ...]
) -> None:
    lookup = fill(engine, "text COLLATE NOCASE", *codes)
    with pytest.raises(ConfigurationError, match=r"'place'.*'code'") as caught:
        lookup.find(REFERENCE, keys)
    assert "geheim" not in str(caught.value).lower()


@pytest.mark.integration
def test_padded_columns_of_postgresql(postgres: Postgres) -> None:
    postgres.create_database("lookup")
    engine = open_engine("erp", postgres.sqlalchemy_url("lookup"), pool_size=1, limits=Limits())
    check(fill(engine, "char(10) PRIMARY KEY", "A1", "a1"), {"A1", "a1 ", "b"},
          {"A1": "of A1", "a1 ": "of a1"})  # fmt: skip
    engine.dispose()


def test_what_cannot_be_told_apart_from_the_spelling_names_the_column(engine: sa.Engine) -> None:
    def compare(one: str, other: str) -> int:
        one, other = one.replace("ü", "u"), other.replace("ü", "u")
        return (one > other) - (one < other)

    def add(connection: Any, _record: object) -> None:
        connection.create_collation("plain", compare)

    sa.event.listen(engine, "connect", add)
    lookup = fill(engine, "text COLLATE plain PRIMARY KEY", "Müller", "x")
    assert lookup.find(REFERENCE, {"Muller"}) == {"Muller": "of Müller"}
    with pytest.raises(ConfigurationError, match=r"'place'.*spellings of 'code'") as caught:
        lookup.find(REFERENCE, {"Muller", "x"})
    assert "ller" not in str(caught.value)
