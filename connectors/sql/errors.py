"""Tables and columns by name, and every error of a database as one of `delivery.errors`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from delivery.errors import ConfigurationError, RejectedError, UnavailableError


@contextmanager
def translated(entity: str) -> Iterator[None]:
    """Name the table, and leave out what would quote the record."""
    try:
        yield
    except exc.NoSuchTableError as error:
        msg = f"table {entity!r} does not exist; correct the mapping, or create the table"
        raise ConfigurationError(msg) from error
    except exc.IntegrityError as error:
        # The cause would go on to quote the record.
        raise RejectedError(_reason(entity, error)) from None
    except exc.DataError as error:
        raise RejectedError(_reason(entity, error, quotes_values=True)) from None
    except exc.ProgrammingError as error:
        raise ConfigurationError(_reason(entity, error)) from error
    except exc.DBAPIError as error:
        raise UnavailableError(_reason(entity, error)) from error
    except exc.StatementError as error:
        # SQLAlchemy itself refuses a parameter, and quotes it.
        msg = f"table {entity!r}: a column cannot hold its value ({type(error.orig).__name__})"
        raise RejectedError(msg) from None
    except exc.TimeoutError as error:
        msg = f"table {entity!r}: no free database connection in time"
        raise UnavailableError(msg) from error


def _reason(entity: str, error: exc.DBAPIError, *, quotes_values: bool = False) -> str:
    """Return the database's own reason, without what quotes the record."""
    reason = str(error.orig).partition("\n")[0]
    if quotes_values:
        reason = re.split(r""":?\s*["']""", reason)[0]
    return f"table {entity!r}: {reason}"


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
