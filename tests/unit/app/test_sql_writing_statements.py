"""What writes to databases that are not run here, as whole texts."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql, sqlite

from connectors.sql.actions import call
from connectors.sql.target import Write
from delivery.errors import ConfigurationError, OutdatedError
from models.job import Action
from models.queue_message import JobActionType
from tests.builders import a_message

_DATETIME2 = mssql.DATETIME2(3)  # type: ignore[no-untyped-call] # SQLAlchemy's own
MYSQL = mysql.dialect()
SQL_SERVER = mssql.dialect(paramstyle="qmark")  # type: ignore[no-untyped-call] # SQLAlchemy's own
TABLE = sa.Table(
    "partner",
    sa.MetaData(),
    sa.Column("number", sa.String(20), primary_key=True),
    sa.Column("changed", mysql.DATETIME(fsp=3).with_variant(_DATETIME2, "mssql")),
    sa.Column("order", sa.Numeric(9, 2)),
    sa.Column("the: name", sa.String(100)),
    sa.Column("picture", sa.LargeBinary),
    schema="dbo",
)
MESSAGE = a_message(
    keys={"number": "D1"},
    fields={"changed": "2026-11-30T10:00:00", "order": "1.50", "the: name": "x", "picture": "AA=="},
)
DELETION = a_message(action=JobActionType.DELETE, keys={"number": "D1"}, fields={})


def text(statement: Any, dialect: sa.Dialect) -> str:
    return " ".join(str(statement.compile(dialect=dialect)).split())


def upsert(dialect: sa.Dialect, guard: str | None, **changes: Any) -> str:
    write = Write.upsert(dialect, TABLE, replace(MESSAGE, **changes), guard)
    return text(write.statement, dialect)


def test_mysql_judges_in_every_assignment_and_sets_the_time_last() -> None:
    expected = """
        INSERT INTO dbo.partner (number, changed, `order`, `the: name`, picture)
        VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE
        `order` = CASE WHEN {passes} THEN VALUES(`order`) ELSE dbo.partner.`order` END,
        `the: name` = CASE WHEN {passes} THEN VALUES(`the: name`)
        ELSE dbo.partner.`the: name` END,
        picture = CASE WHEN {passes} THEN VALUES(picture) ELSE dbo.partner.picture END,
        changed = CASE WHEN {passes} THEN VALUES(changed) ELSE dbo.partner.changed END
    """
    passes = "(dbo.partner.changed IS NULL OR dbo.partner.changed <= VALUES(changed))"
    assert upsert(MYSQL, "changed") == " ".join(expected.format(passes=passes).split())


def test_mysql_updates_what_the_message_has() -> None:
    assert upsert(MYSQL, None, fields={"order": None}) == (
        "INSERT INTO dbo.partner (number, `order`) VALUES (%s, %s) "
        "ON DUPLICATE KEY UPDATE `order` = VALUES(`order`)"
    )
    assert upsert(MYSQL, None, fields={}) == (
        "INSERT INTO dbo.partner (number) VALUES (%s) "
        "ON DUPLICATE KEY UPDATE number = VALUES(number)"
    )


def test_mysql_is_asked_afterwards_whether_its_row_is_newer() -> None:
    write = Write.upsert(MYSQL, TABLE, MESSAGE, "changed")
    assert text(write.held.select, MYSQL) == (
        "SELECT CASE WHEN (dbo.partner.changed > CAST(%s AS DATETIME(3))) THEN 1 ELSE 0 END "
        "AS anon_1 FROM dbo.partner WHERE dbo.partner.number = %s"
    )


def test_where_no_count_tells_what_was_written_the_row_is_asked() -> None:
    table = sa.Table(
        "partner",
        sa.MetaData(),
        sa.Column("number", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer),
    )
    engine = sa.create_engine("sqlite://")
    message = a_message(keys={"number": "D1"}, fields={"version": 5})
    asking = Write.upsert(MYSQL, table, message, "version")
    runnable = Write.upsert(engine.dialect, table, message, "version")
    write = replace(asking, statement=runnable.statement)
    with engine.connect() as connection:
        table.create(connection)
        for version in (5, 5, 6):
            write.execute(connection, replace(message, fields={"version": version}))
        with pytest.raises(OutdatedError):
            write.execute(connection, message)
    engine.dispose()


def test_sql_server_merges_and_judges_where_a_row_matches() -> None:
    assert upsert(SQL_SERVER, "changed") == (
        "MERGE INTO dbo.partner WITH (HOLDLOCK) AS held "
        "USING (VALUES (?, CAST(? AS DATETIME2(3)), CAST(? AS NUMERIC(9, 2)), ?, "
        "CAST(? AS VARBINARY(max)))) "
        "AS new (number, changed, [order], [the: name], picture) "
        "ON held.number = new.number "
        "WHEN MATCHED AND (held.changed IS NULL OR held.changed <= new.changed) "
        "THEN UPDATE SET changed = new.changed, [order] = new.[order], "
        "[the: name] = new.[the: name], picture = new.picture "
        "WHEN NOT MATCHED THEN INSERT (number, changed, [order], [the: name], picture) "
        "VALUES (new.number, new.changed, new.[order], new.[the: name], new.picture);"
    )


def test_sql_server_writes_keys_alone_where_they_are_new() -> None:
    assert upsert(SQL_SERVER, None, fields={}) == (
        "MERGE INTO dbo.partner WITH (HOLDLOCK) AS held USING (VALUES (?)) AS new (number) "
        "ON held.number = new.number "
        "WHEN NOT MATCHED THEN INSERT (number) VALUES (new.number);"
    )


def test_a_merge_binds_each_value_to_its_column() -> None:
    write = Write.upsert(SQL_SERVER, TABLE, MESSAGE, "changed")
    assert [(name, column.name) for name, column in write.parameters] == [
        ("p0", "number"),
        ("p1", "changed"),
        ("p2", "order"),
        ("p3", "the: name"),
        ("p4", "picture"),
    ]


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            MYSQL,
            (
                "DELETE FROM dbo.partner WHERE dbo.partner.number = %s AND "
                "(dbo.partner.changed IS NULL OR dbo.partner.changed <= CAST(%s AS DATETIME(3)))"
            ),
        ),
        (
            SQL_SERVER,
            (
                "DELETE FROM dbo.partner WHERE dbo.partner.number = ? AND "
                "(dbo.partner.changed IS NULL OR dbo.partner.changed <= CAST(? AS DATETIME2(3)))"
            ),
        ),
    ],
)
def test_a_deletion_spares_a_newer_row(dialect: sa.Dialect, expected: str) -> None:
    write = Write.delete(dialect, TABLE, DELETION, "changed")
    assert text(write.statement, dialect) == expected


def test_a_deletion_that_removed_nothing_asks_whether_the_row_is_there() -> None:
    write = Write.delete(MYSQL, TABLE, DELETION, "changed")
    assert text(write.held.select, MYSQL) == (
        "SELECT CASE WHEN (dbo.partner.changed > CAST(%s AS DATETIME(3))) THEN 1 ELSE 0 END "
        "AS anon_1 FROM dbo.partner WHERE dbo.partner.number = %s"
    )


_REQUIRING = sa.Table(
    "partner",
    sa.MetaData(),
    sa.Column("number", sa.String(20), primary_key=True),
    sa.Column("changed", mysql.DATETIME(fsp=3).with_variant(_DATETIME2, "mssql")),
    sa.Column("customer", sa.String(20), nullable=False),
)


@pytest.mark.parametrize(
    ("dialect", "is_first", "expected"),
    [
        (
            MYSQL,
            True,
            (
                "UPDATE partner SET changed=%s WHERE partner.number = %s "
                "AND (partner.changed IS NULL OR partner.changed <= CAST(%s AS DATETIME(3)))"
            ),
        ),
        (
            SQL_SERVER,
            False,
            (
                "UPDATE partner SET changed=? WHERE partner.number = ? "
                "AND (partner.changed IS NULL OR partner.changed <= CAST(? AS DATETIME2(3)))"
            ),
        ),
    ],
)
def test_where_an_insert_would_lack_a_column_an_update_comes_first_but_for_merges(
    dialect: sa.Dialect, expected: str, *, is_first: bool
) -> None:
    message = replace(MESSAGE, fields={"changed": "2026-11-30T10:00:00"})
    write = Write.upsert(dialect, _REQUIRING, message, "changed")
    assert write.is_update_first is is_first
    assert write.update is not None
    assert text(write.update.statement, dialect) == expected


def test_columns_that_the_database_fills_are_not_lacking() -> None:
    filled: list[dict[str, Any]] = [
        {"server_default": "x"},
        {"autoincrement": True},
        {"nullable": True},
    ]
    for options in filled:
        column = sa.Column("other", sa.Integer, **{"nullable": False, **options})
        table = sa.Table(
            "partner", sa.MetaData(), sa.Column("number", sa.Text, primary_key=True), column
        )
        message = replace(MESSAGE, fields={})
        assert not Write.upsert(MYSQL, table, message, None).is_update_first


@pytest.mark.parametrize("dialect", [MYSQL, SQL_SERVER, sqlite.dialect()])
def test_a_deletion_by_what_is_no_unique_key_is_refused(dialect: sa.Dialect) -> None:
    table = sa.Table(
        "partner",
        sa.MetaData(),
        *(sa.Column(name, sa.Integer) for name in ("number", "mail", "phone")),
    )
    columns = table.c
    sa.Index("partial", columns["number"], unique=True, sqlite_where=columns["mail"] > 0)
    sa.Index("by_function", columns["mail"], sa.func.abs(columns["phone"]), unique=True)
    for names in ((), ("number",), ("mail",), ("mail", "phone")):
        deletion = replace(DELETION, keys=dict.fromkeys(names, 1))
        with pytest.raises(ConfigurationError, match="unique constraint on exactly these"):
            Write.delete(dialect, table, deletion, None)


@pytest.mark.parametrize("dialect", [MYSQL, SQL_SERVER])
def test_keys_that_are_not_unique_are_refused_where_the_database_would_double_them(
    dialect: sa.Dialect,
) -> None:
    message = replace(MESSAGE, keys={"the: name": "x"}, fields={})
    with pytest.raises(ConfigurationError, match=r"dbo\.partner.*unique constraint on exactly"):
        Write.upsert(dialect, TABLE, message, None)


def test_mysql_is_not_let_change_the_row_that_has_another_unique_value() -> None:
    columns = [sa.Column(name, sa.Integer) for name in ("id", "number", "mail", "phone")]
    table = sa.Table("partner", sa.MetaData(), *columns)
    sa.Index("by_number", *columns[1:2], unique=True)
    sa.Index("by_number_and_phone", columns[1], columns[3], unique=True)
    sa.Index("by_mail", columns[2], unique=True)
    table.append_constraint(sa.PrimaryKeyConstraint("id"))
    message = a_message(keys={"number": 1}, fields={"phone": 1})
    Write.upsert(MYSQL, table, message, None)
    with pytest.raises(ConfigurationError, match="mail is unique too"):
        Write.upsert(MYSQL, table, replace(message, fields={"mail": 1}), None)


@pytest.mark.parametrize(
    ("dialect", "kind", "expected"),
    [
        (MYSQL, "procedure", "CALL sales.`take it`(%s, %s)"),
        (MYSQL, "function", "SELECT sales.`take it`(%s, %s)"),
        (
            SQL_SERVER,
            "procedure",
            "SET NOCOUNT ON; EXEC sales.[take it] @number = ?, @order = ?",
        ),
        (SQL_SERVER, "function", "SELECT sales.[take it](?, ?)"),
    ],
)
def test_a_routine_is_called_as_its_database_does(
    dialect: sa.Dialect, kind: str, expected: str
) -> None:
    action = Action.model_validate({"name": "sales.take it", "kind": kind})
    assert call(dialect, action, ["number", "order"]) == expected


@pytest.mark.parametrize("name", ["a b", "a=1, @b", "a;--", ""])
def test_a_parameter_of_sql_server_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no name of a parameter"):
        call(SQL_SERVER, Action(name="take"), [name])


def test_sqlite_has_no_routines() -> None:
    with pytest.raises(ConfigurationError, match="'sqlite'"):
        call(sqlite.dialect(), Action(name="take"), [])
