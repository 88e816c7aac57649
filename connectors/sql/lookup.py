"""References, looked up by key."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
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

#: The wanted values by the key as the column spells it.
type _Found = dict[Any, Any]


class SqlLookup:
    """Finds records of any table; what it knows of the tables' columns, it knows once."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._tables: dict[str, sa.Table] = {}

    def find(self, reference: Reference, keys: AbstractSet[Value]) -> Mapping[Value, Any]:
        """Return the wanted value for each key that exists."""
        table = self._table(reference.entity)
        key, wanted = column(table, reference.key), column(table, reference.value)
        given: defaultdict[Any, list[Value]] = defaultdict(list)
        for each in keys:
            given[_of_column(key, each)].append(each)
        with self._engine.connect() as connection:
            search = _Search(connection, reference, key, sa.select(key, wanted))
            found = search.values(list(given))
        return {each: value for held, value in found.items() for each in given[held]}

    def _table(self, entity: str) -> sa.Table:
        table = self._tables.get(entity)
        if table is None:
            table = self._tables[entity] = reflect(self._engine, entity)
        return table


@dataclass(frozen=True, slots=True)
class _Search:
    """Tells which row has which key, also where the database spells the key otherwise.

    It pads with blanks, or takes capital and small letters for the same, as the column says.
    """

    connection: sa.Connection
    reference: Reference
    key: sa.Column[Any]
    select: sa.Select[Any]

    def values(self, keys: list[Any]) -> _Found:
        """Return the wanted values by the keys as given."""
        found: _Found = {}
        for some in batched(keys, _KEYS_PER_STATEMENT, strict=False):
            found |= self._of_some(some)
        return found

    def _of_some(self, keys: tuple[Any, ...]) -> _Found:
        rows = self._rows(keys)
        if len(keys) == 1:  # whatever was found has this key
            return dict(zip(keys, rows.values(), strict=True)) if rows else {}
        found = {key: rows[key] for key in keys if key in rows}
        others = {key: value for key, value in rows.items() if key not in found}
        for spelling in (_without_blanks, _folded):
            found |= self._by_spelling(spelling, [key for key in keys if key not in found], others)
        if others:
            raise ConfigurationError(_unknown_spelling(self.reference))
        # A row that has been found by one spelling may have another one's key as well.
        held = {_folded(key) for key in rows}
        for key in keys:
            if key not in found and isinstance(key, str) and _folded(key) in held:
                found |= self._of_some((key,))
        return found

    def _by_spelling(
        self, spelling: Callable[[Any], Any], keys: Iterable[Any], rows: _Found
    ) -> _Found:
        """Take those rows out that are spelt like one of the keys."""
        asked = {spelling(key): key for key in keys}
        spelt = [key for key in rows if spelling(key) in asked]
        if len({spelling(key) for key in spelt}) < len(spelt):
            raise ConfigurationError(_ambiguous(self.reference))
        return {asked[spelling(key)]: rows.pop(key) for key in spelt}

    def _rows(self, keys: tuple[Any, ...]) -> _Found:
        rows: _Found = {}
        for held, value in self.connection.execute(self.select.where(self.key.in_(keys))):
            if held in rows or (rows and len(keys) == 1):
                raise ConfigurationError(_ambiguous(self.reference))
            rows[held] = value
        return rows


def _without_blanks(key: object) -> object:
    return key.rstrip(" ") if isinstance(key, str) else key


def _folded(key: object) -> object:
    return key.rstrip(" ").casefold() if isinstance(key, str) else key


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


def _unknown_spelling(reference: Reference) -> str:
    return (
        f"table {reference.entity!r}: the database takes different spellings of "
        f"{reference.key!r} for the same; spell the keys as that column does"
    )
