"""References, looked up by key."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import batched
from typing import Any

import sqlalchemy as sa

from connectors.fields import Reference
from connectors.sql.tables import column, reflect
from connectors.sql.types import to_column_value
from delivery.errors import ConfigurationError
from models.values import Value

#: Keys in one statement; databases limit the number of its parameters.
_KEYS_PER_STATEMENT = 500


class SqlLookup:
    """Finds records of any table; what it knows of the tables' columns, it knows once."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._tables: dict[str, sa.Table] = {}

    def find(self, reference: Reference, keys: AbstractSet[Value]) -> Mapping[Value, Any]:
        """Return the wanted value for each key that exists."""
        table = self._table(reference.entity)
        key, wanted = column(table, reference.key), column(table, reference.value)
        given = {_of_column(key, each): each for each in keys}
        found: dict[Value, Any] = {}
        with self._engine.connect() as connection:
            for some in batched(given, _KEYS_PER_STATEMENT, strict=False):
                select = sa.select(key, wanted).where(key.in_(some))
                for held, value in connection.execute(select):
                    if given[held] in found:
                        raise ConfigurationError(_ambiguous(reference))
                    found[given[held]] = value
        return found

    def _table(self, entity: str) -> sa.Table:
        table = self._tables.get(entity)
        if table is None:
            table = self._tables[entity] = reflect(self._engine, entity)
        return table


def _of_column(key: sa.Column[Any], value: Value) -> Any:  # noqa: ANN401 - the column's type
    """Return the key as the column has it; one that cannot be there is left to find nothing."""
    try:
        return to_column_value(key, value)
    except (ValueError, ArithmeticError):
        return None


def _ambiguous(reference: Reference) -> str:
    return (
        f"table {reference.entity!r}: several rows have the same {reference.key!r}; "
        "look up by a column that is unique"
    )
