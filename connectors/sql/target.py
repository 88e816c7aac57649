"""Writes changes, with statements built once for each table and set of fields.

One statement each, but where a row must be there or an insert would lack columns.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy import exc

from connectors.sql.codes import may_lack_values
from connectors.sql.tables import check_unique_key, column, is_unique_key, no_unique_key
from connectors.sql.types import comparable, to_column_value, writable
from connectors.sql.updates import WITHOUT_COUNT, Held, Update, by_place
from connectors.sql.upserts import Upsert, is_not_newer
from delivery.errors import ConfigurationError, RejectedError
from models.queue_message import JobActionType, QueueMessage
from models.values import Value

Parameters = tuple[tuple[str, sa.Column[Any]], ...]


@dataclass(frozen=True, slots=True)
class Write:
    """A statement with one parameter for each key, then one for each field.

    With a guard it writes nothing where the target holds something newer. Where the count of
    rows leaves that open, `held` is asked. An upsert has an `update` too, for a row that is there
    and must be: it comes first where the insert would lack columns.
    """

    statement: sa.Executable
    parameters: Parameters
    held: Held
    counts: bool = True
    update: Update | None = None
    is_update_first: bool = False

    @classmethod
    def upsert(
        cls, dialect: sa.Dialect, table: sa.Table, message: QueueMessage, guard: str | None
    ) -> Self:
        """Insert the row, or update the fields where the keys exist."""
        keys = tuple(column(table, name) for name in message.keys)
        if not keys:
            raise no_unique_key(table)
        fields = tuple(column(table, name) for name in message.fields)
        upsert = Upsert(table, keys, fields, None if guard is None else column(table, guard))
        parameters = tuple(zip(upsert.parameter_names(dialect), (*keys, *fields), strict=True))
        statement = upsert.statement(dialect)
        # PostgreSQL and SQLite see for themselves that an upsert's keys are unique.
        update = Update.of(dialect, upsert) if is_unique_key(table, keys) else None
        return cls(
            statement,
            parameters,
            Held.of(dialect, keys, fields, guard),
            counts=dialect.name not in WITHOUT_COUNT,
            update=update,
            is_update_first=update is not None and upsert.lacks_columns(dialect),
        )

    @classmethod
    def delete(
        cls, dialect: sa.Dialect, table: sa.Table, message: QueueMessage, guard: str | None
    ) -> Self:
        """Remove the row with the message's keys; refuse keys that several rows may have."""
        keys = tuple(column(table, name) for name in message.keys)
        check_unique_key(table, keys)
        parameters = tuple((key.name, key) for key in keys)
        statement = sa.delete(table).where(*by_key(keys))
        if guard is None:
            return cls(statement, parameters, Held.of(dialect, keys, (), None))
        guarded_by = column(table, guard)
        passes = is_not_newer(guarded_by, comparable(guarded_by, dialect.name))
        held = Held.of(dialect, keys, (guarded_by,), guard)
        return cls(statement.where(passes), parameters, held)

    def execute(self, connection: sa.Connection, message: QueueMessage) -> None:
        """Write the message; raise OutdatedError where the target holds something newer."""
        values = converted(self.parameters, (*message.keys.values(), *message.fields.values()))
        if message.action is JobActionType.DELETE:
            self._delete(connection, message, values)
        elif message.update_only:
            self._update(connection, values)
        elif not self.is_update_first or not self._is_updated(connection, values):
            self._upsert(connection, values)

    def _delete(
        self, connection: sa.Connection, message: QueueMessage, values: dict[str, Any]
    ) -> None:
        guard = self.held.guard
        if guard is not None:
            values[guard.name] = _time_of(message, guard)
        for _ in range(_LOOKS):
            removed = connection.execute(self.statement, values).rowcount
            if guard is None or removed > 0:
                return
            if not self.held.is_there(connection, by_place(values.values())):
                return
        raise self.held.not_written()

    def _update(self, connection: sa.Connection, values: dict[str, Any]) -> None:
        if self.update is None:
            raise no_unique_key(self.held.table)
        if not self._is_updated(connection, values):
            raise self.held.gone()

    def _upsert(self, connection: sa.Connection, values: dict[str, Any]) -> None:
        for _ in range(_LOOKS):
            try:
                result = connection.execute(self.statement, values)
            except exc.DBAPIError as error:
                # The row may hold what the message lacks, or was inserted just now.
                if may_lack_values(error.orig) and self._is_updated(connection, values):
                    return
                raise
            if self.held.guard is None or (self.counts and result.rowcount > 0):
                return
            self.held.is_there(connection, by_place(values.values()))
            if not self.counts:
                return
        raise self.held.not_written()

    def _is_updated(self, connection: sa.Connection, values: dict[str, Any]) -> bool:
        if self.update is None:
            return False
        return self.update.execute(connection, by_place(values.values()))


#: How often a write that wrote nothing is made before that is the database's own decision: the row
#: that explains it may come, or go, between the write and the look.
_LOOKS = 2


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
