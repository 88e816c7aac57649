"""Writes changes: one statement each, built once for each mapping and set of fields."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from connectors.sql.errors import column
from connectors.sql.types import to_column_value, writable
from delivery.errors import ConfigurationError, RejectedError
from models.values import Value

#: The dialects with an upsert that we know, and their way to build one.
INSERTS: dict[str, Callable[[sa.Table], Any]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


@dataclass(frozen=True, slots=True)
class Write:
    """A statement with one parameter a column."""

    statement: sa.Executable
    columns: dict[str, sa.Column[Any]]

    @classmethod
    def upsert(cls, dialect: str, table: sa.Table, keys: list[str], fields: list[str]) -> Self:
        """Insert the row, or update `fields` where `keys` exist."""
        if dialect not in INSERTS:
            msg = f"databases of kind {dialect!r} can be read only; choose another target"
            raise ConfigurationError(msg)
        columns = {name: column(table, name) for name in (*keys, *fields)}
        insert = INSERTS[dialect](table).values(
            {name: writable(target) for name, target in columns.items()}
        )
        key_columns = [columns[name] for name in keys]
        if fields:
            changed = {name: insert.excluded[name] for name in fields}
            statement = insert.on_conflict_do_update(index_elements=key_columns, set_=changed)
        else:
            statement = insert.on_conflict_do_nothing(index_elements=key_columns)
        return cls(statement, columns)

    @classmethod
    def delete(cls, table: sa.Table, keys: list[str]) -> Self:
        """Remove the row with `keys`."""
        columns = {name: column(table, name) for name in keys}
        conditions = (target == writable(target) for target in columns.values())
        return cls(sa.delete(table).where(*conditions), columns)

    def parameters(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """Turn a message's texts into the columns' types; raise RejectedError where one is none."""
        return {name: _converted(self.columns[name], value) for name, value in values.items()}


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
