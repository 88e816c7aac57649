"""Tables and columns by name."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from connectors.sql.errors import NO_UNIQUE_KEY, translated
from delivery.errors import ConfigurationError


def reflect(engine: sa.Engine, entity: str) -> sa.Table:
    """Read a table's columns from the database; `entity` is `table` or `schema.table`."""
    schema, _, name = entity.rpartition(".")
    with translated(entity):
        return sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=engine)


def column(table: sa.Table, name: str) -> sa.Column[Any]:
    """Return a column by name; raise ConfigurationError, which lists those that there are."""
    try:
        return table.c[name]
    except KeyError:
        msg = (
            f"table {table.fullname!r} has no column {name!r}; it has "
            f"{', '.join(sorted(table.c.keys()))}; correct the mapping or the job"
        )
        raise ConfigurationError(msg) from None


def unique_keys(table: sa.Table) -> set[frozenset[str]]:
    """Return the sets of columns of which the database holds each combination once."""
    uniques: list[sa.PrimaryKeyConstraint | sa.UniqueConstraint | sa.Index] = [table.primary_key]
    uniques += [each for each in table.constraints if isinstance(each, sa.UniqueConstraint)]
    uniques += [index for index in table.indexes if index.unique and _is_of_all_rows(index)]
    # A table without a primary key has one without columns.
    return {frozenset(column.name for column in unique.columns) for unique in uniques} - {
        frozenset[str]()
    }


def check_unique_key(table: sa.Table, keys: Iterable[sa.Column[Any]]) -> None:
    """Raise ConfigurationError where several rows may have the same keys."""
    if not is_unique_key(table, keys):
        raise no_unique_key(table)


def no_unique_key(table: sa.Table) -> ConfigurationError:
    """Return what to raise where several rows may have the same keys."""
    return ConfigurationError(f"table {table.fullname!r}: {NO_UNIQUE_KEY}")


def is_unique_key(table: sa.Table, keys: Iterable[sa.Column[Any]]) -> bool:
    """Tell whether the database holds each combination of the keys once."""
    return frozenset(key.name for key in keys) in unique_keys(table)


def _is_of_all_rows(index: sa.Index) -> bool:
    """Tell apart what is unique among some rows only, or by more than its columns."""
    options = index.dialect_kwargs.items()
    if any(name.endswith("_where") and value is not None for name, value in options):
        return False
    return all(isinstance(part, sa.Column) for part in index.expressions)
