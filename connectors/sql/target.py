"""Writes changes: one statement each, built once for each table and set of fields."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sa

from connectors.sql.tables import column
from connectors.sql.types import Columns, comparable, to_column_value, writable
from connectors.sql.upserts import Upsert, is_not_newer
from delivery.errors import ConfigurationError, OutdatedError, RejectedError
from models.queue_message import JobActionType, QueueMessage
from models.values import Value

Parameters = tuple[tuple[str, sa.Column[Any]], ...]


@dataclass(frozen=True, slots=True)
class Write:
    """A statement with one parameter for each key, then one for each field.

    With a guard it writes nothing where the target holds something newer. Where the count of
    rows leaves that open, `doubt` finds a row if so.
    """

    statement: sa.Executable
    parameters: Parameters
    guard: sa.Column[Any] | None = None
    counts: bool = True
    doubt: sa.Select[Any] | None = None

    @classmethod
    def upsert(
        cls, dialect: sa.Dialect, table: sa.Table, message: QueueMessage, guard: str | None
    ) -> Self:
        """Insert the row, or update the fields where the keys exist."""
        keys = tuple(column(table, name) for name in message.keys)
        fields = tuple(column(table, name) for name in message.fields)
        guarded_by = None if guard is None else column(table, guard)
        upsert = Upsert(table, keys, fields, guarded_by)
        parameters = tuple(zip(upsert.parameter_names(dialect), (*keys, *fields), strict=True))
        statement = upsert.statement(dialect)
        if guarded_by is None or dialect.name not in _WITHOUT_COUNT:
            return cls(statement, parameters, guarded_by)
        newer = _select_by(keys).where(guarded_by > comparable(guarded_by, dialect.name))
        return cls(statement, parameters, guarded_by, counts=False, doubt=newer)

    @classmethod
    def delete(
        cls, dialect: sa.Dialect, table: sa.Table, message: QueueMessage, guard: str | None
    ) -> Self:
        """Remove the row with the message's keys."""
        keys = tuple(column(table, name) for name in message.keys)
        parameters = tuple((key.name, key) for key in keys)
        statement = sa.delete(table).where(*by_key(keys))
        if guard is None:
            return cls(statement, parameters)
        guarded_by = column(table, guard)
        passes = is_not_newer(guarded_by, comparable(guarded_by, dialect.name))
        return cls(statement.where(passes), parameters, guarded_by, doubt=_select_by(keys))

    def execute(self, connection: sa.Connection, message: QueueMessage) -> None:
        """Write the message; raise OutdatedError where the target holds something newer."""
        values = converted(self.parameters, (*message.keys.values(), *message.fields.values()))
        if self.guard is not None and message.action is JobActionType.DELETE:
            values[self.guard.name] = _time_of(message, self.guard)
        result = connection.execute(self.statement, values)
        if self.guard is None or (self.counts and result.rowcount > 0):
            return
        if self.doubt is None or connection.execute(self.doubt, values).first() is not None:
            msg = (
                f"table {self.guard.table.fullname!r}: the row is newer than this change, "
                f"by its {self.guard.name!r}"
            )
            raise OutdatedError(msg)


#: An upsert that changes nothing counts a row there.
_WITHOUT_COUNT = {"mysql", "mariadb"}


def by_key(keys: Iterable[sa.Column[Any]]) -> list[sa.ColumnElement[bool]]:
    """Return what holds for the row with the keys that parameters of their names hold."""
    return [key == writable(key) for key in keys]


def converted(parameters: Parameters, values: Iterable[Value]) -> dict[str, Any]:
    """Turn a message's texts into the columns' types; raise RejectedError where one is none."""
    return {
        name: _converted(target, value)
        for (name, target), value in zip(parameters, values, strict=True)
    }


def _converted(target: sa.Column[Any], value: Value) -> object:
    try:
        return to_column_value(target, value)
    except (ValueError, ArithmeticError):
        # The value itself stays out of the message: it may be personal.
        msg = (
            f"column {target.name!r} cannot hold the value; "
            "change the mapping or correct the source"
        )
        raise RejectedError(msg) from None


def _time_of(message: QueueMessage, guard: sa.Column[Any]) -> object:
    try:
        return to_column_value(guard, message.change_tracker)
    except (ValueError, ArithmeticError):
        msg = (
            f"skipOutdated: the watermark {message.change_tracker!r} of a deletion is no value of "
            f"column {guard.name!r} ({guard.type}); name a column of the watermark's type"
        )
        raise ConfigurationError(msg) from None


def _select_by(keys: Columns) -> sa.Select[Any]:
    return sa.select(sa.literal_column("1")).select_from(keys[0].table).where(*by_key(keys))
