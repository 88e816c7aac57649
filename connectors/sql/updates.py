"""What is known of a row that is there already: its update, and whether it is newer.

Parameters are named by their place: an update gives the names of columns a meaning of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sa

from connectors.sql.types import Columns, comparable, writable
from connectors.sql.upserts import Upsert, is_not_newer
from delivery.errors import OutdatedError, RejectedError

#: An upsert that changes nothing counts a row there; and no trigger can skip one.
WITHOUT_COUNT = {"mysql", "mariadb"}


def by_place(values: Iterable[Any]) -> dict[str, Any]:
    """Return the values of keys, then of fields, by the names of parameters in here."""
    return {_name(place): value for place, value in enumerate(values)}


@dataclass(frozen=True, slots=True)
class Held:
    """Finds the row with the keys, and tells whether it is newer than the change."""

    select: sa.Select[Any]
    table: sa.Table
    guard: sa.Column[Any] | None

    @classmethod
    def of(cls, dialect: sa.Dialect, keys: Columns, rest: Columns, guard: str | None) -> Self:
        """Build it once; the time of the change is the parameter of `guard` among `rest`."""
        table, columns = keys[0].table, (*keys, *rest)
        assert isinstance(table, sa.Table)  # noqa: S101 - its columns are of a table
        if guard is None:
            found: sa.ColumnElement[Any] = sa.literal_column("0")
            return cls(sa.select(found).where(*_is_row(keys)), table, None)
        by = table.c[guard]
        time = comparable(by, dialect.name, _name(columns.index(by)))
        found = sa.case((by > time, sa.literal_column("1")), else_=sa.literal_column("0"))
        return cls(sa.select(found).where(*_is_row(keys)), table, by)

    def is_there(self, connection: sa.Connection, values: dict[str, Any]) -> bool:
        """Tell whether there is a row; raise OutdatedError where it is newer."""
        is_newer = connection.execute(self.select, values).scalar()
        if is_newer and self.guard is not None:
            msg = (
                f"table {self.table.fullname!r}: the row is newer than this change, "
                f"by its {self.guard.name!r}"
            )
            raise OutdatedError(msg)
        return is_newer is not None

    def not_written(self) -> RejectedError:
        """Return what to raise where nothing was written, and no newer row is the reason."""
        return RejectedError(
            f"table {self.table.fullname!r}: the database kept the row from being written, "
            "for example by a trigger"
        )

    def gone(self) -> OutdatedError:
        """Return what to raise where there is no row, and none may be made."""
        return OutdatedError(
            f"table {self.table.fullname!r}: the record is not there any more, and this message "
            "only updates it"
        )


@dataclass(frozen=True, slots=True)
class Update:
    """Updates the row with the keys, and inserts none."""

    statement: sa.Update | None
    held: Held
    counts: bool

    @classmethod
    def of(cls, dialect: sa.Dialect, upsert: Upsert) -> Self:
        """Build it once; without fields there is nothing to set."""
        keys, fields, guard = upsert.keys, upsert.fields, upsert.guard
        held = Held.of(dialect, keys, fields, None if guard is None else guard.name)
        counts = dialect.name not in WITHOUT_COUNT
        if not fields:
            return cls(None, held, counts)
        columns = (*keys, *fields)
        changed = {field: writable(field, _name(columns.index(field))) for field in fields}
        statement = sa.update(upsert.table).where(*_is_row(keys)).values(changed)
        if guard is not None:
            time = comparable(guard, dialect.name, _name(columns.index(guard)))
            statement = statement.where(is_not_newer(guard, time))
        return cls(statement, held, counts)

    def execute(self, connection: sa.Connection, values: dict[str, Any]) -> bool:
        """Tell whether there is a row, which then is updated; raise OutdatedError if it is newer.

        A row that is there and was not found may have come between the two statements.
        """
        for _ in range(2):
            if self.statement is None:
                return self.held.is_there(connection, values)
            if connection.execute(self.statement, values).rowcount > 0:
                return True
            if not self.held.is_there(connection, values):
                return False
        if self.held.guard is not None and self.counts:
            raise self.held.not_written()
        return True


def _name(place: int) -> str:
    return f"written_{place}"


def _is_row(keys: Columns) -> list[sa.ColumnElement[bool]]:
    return [key == writable(key, _name(place)) for place, key in enumerate(keys)]
