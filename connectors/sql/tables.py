"""Tables and columns by name."""

from typing import Any

import sqlalchemy as sa

from connectors.sql.errors import translated
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
    uniques += [index for index in table.indexes if index.unique]
    return {frozenset(column.name for column in unique.columns) for unique in uniques}
