"""The upsert of each database: one statement, which also judges whether the change is outdated.

The guard is a column with the time of the change. It lets a change through where the column is
null or not later than the change, so that only a strictly older one is held off.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from connectors.sql.merges import merge, parameter_names
from connectors.sql.tables import check_unique_key, unique_keys
from connectors.sql.types import Columns, writable
from delivery.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Upsert:
    """What is written where."""

    table: sa.Table
    keys: Columns
    fields: Columns
    guard: sa.Column[Any] | None = None

    def statement(self, dialect: sa.Dialect) -> sa.Executable:
        """Return the statement; its parameters are `parameter_names`."""
        match dialect.name:
            case "mysql" | "mariadb":
                # These databases do not refuse themselves what would insert a key twice.
                check_unique_key(self.table, self.keys)
                _check_no_other_key(self)
                return _on_duplicate_key(self)
            case "mssql":
                check_unique_key(self.table, self.keys)
                merging = merge(dialect, self.table, self.keys, self.fields, self.guard)
                return _counting(merging)
            case _:
                return _on_conflict(self, dialect.name)

    def lacks_columns(self, dialect: sa.Dialect) -> bool:
        """Tell whether its insert would be refused even where it only is to update.

        Most databases look for missing values before they look for the key. SQL Server merges, and
        asks for them only where it inserts.
        """
        if dialect.name == "mssql":
            return False
        written = _names((*self.keys, *self.fields))
        return any(column.name not in written and _is_required(column) for column in self.table.c)

    def parameter_names(self, dialect: sa.Dialect) -> list[str]:
        """Return the name of the parameter of each key, then of each field."""
        columns = (*self.keys, *self.fields)
        if dialect.name == "mssql":
            return parameter_names(columns)
        return [column.name for column in columns]


def is_not_newer(guard: sa.Column[Any], time: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return what holds where the row is not newer than `time`."""
    return sa.or_(guard.is_(None), guard <= time)


def _is_required(column: sa.Column[Any]) -> bool:
    made_up = (column.server_default, column.identity, column.computed)
    is_counted = column.autoincrement is True
    return not column.nullable and not is_counted and all(each is None for each in made_up)


def _values(upsert: Upsert) -> dict[str, sa.ColumnElement[Any]]:
    return {column.name: writable(column) for column in (*upsert.keys, *upsert.fields)}


def _on_conflict(upsert: Upsert, dialect: str) -> sa.Executable:
    """PostgreSQL and SQLite, which themselves refuse keys without a unique constraint."""
    inserts: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
    insert = inserts[dialect](upsert.table).values(_values(upsert))
    if not upsert.fields:
        statement = insert.on_conflict_do_nothing(index_elements=upsert.keys)
    else:
        guard = upsert.guard
        statement = insert.on_conflict_do_update(
            index_elements=upsert.keys,
            set_={column.name: insert.excluded[column.name] for column in upsert.fields},
            where=None if guard is None else is_not_newer(guard, insert.excluded[guard.name]),
        )
    return _counting(statement)


def _on_duplicate_key(upsert: Upsert) -> sa.Executable:
    """MySQL and MariaDB, which assign from left to right: the guard's own column comes last."""
    insert = mysql.insert(upsert.table).values(_values(upsert))
    guard = upsert.guard
    if guard is None:
        # Without a field, a key is set to itself: MySQL has no "do nothing" but for all errors.
        changed = upsert.fields or upsert.keys[:1]
        return insert.on_duplicate_key_update(
            [(column.name, insert.inserted[column.name]) for column in changed]
        )
    passes = is_not_newer(guard, insert.inserted[guard.name])
    ordered = [*(column for column in upsert.fields if column is not guard), guard]
    return insert.on_duplicate_key_update(
        [
            (column.name, sa.case((passes, insert.inserted[column.name]), else_=column))
            for column in ordered
        ]
    )


def _counting(statement: Any) -> sa.Executable:  # noqa: ANN401 - inserts of several dialects
    """Keep the count of rows, which is zero where the guard held."""
    counting: sa.Executable = statement.execution_options(preserve_rowcount=True)
    return counting


def _check_no_other_key(upsert: Upsert) -> None:
    """Refuse what would change the row of another key.

    MySQL updates whatever row has one of the unique values that are written.
    """
    keys, written = _names(upsert.keys), _names((*upsert.keys, *upsert.fields))
    for other in unique_keys(upsert.table):
        if other <= written and not keys <= other:
            msg = (
                f"table {upsert.table.fullname!r}: {', '.join(sorted(other))} is unique too, and "
                "MySQL would change the row that has it, whatever its key; "
                "leave it out of the mapping, or make it not unique"
            )
            raise ConfigurationError(msg)


def _names(columns: Columns) -> frozenset[str]:
    return frozenset(column.name for column in columns)
