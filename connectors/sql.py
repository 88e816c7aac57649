"""SQL databases, through SQLAlchemy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql, sqlite

from connectors.base import ConnectorBase
from connectors.values import from_text
from delivery.errors import ConfigurationError, RejectedError, UnavailableError
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage, Value
from models.watermark import WatermarkValue

#: Rows read with one statement.
PAGE_SIZE = 1_000

_CONNECT_TIMEOUT_SECONDS = 10
_STATEMENT_TIMEOUT_SECONDS = 60

_INSERTS: dict[str, Callable[[sa.Table], Any]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}


class SqlConnector(ConnectorBase):
    """One database. Safe for several threads; each call takes a connection of the pool.

    Every method raises `delivery.errors`.
    """

    def __init__(self, engine: sa.Engine, *, page_size: int = PAGE_SIZE) -> None:
        self._engine = engine
        self._page_size = page_size
        self._upserts: dict[str, _Upsert] = {}
        self._reflecting = Lock()

    @classmethod
    def from_url(cls, name: str, url: str, *, pool_size: int) -> Self:
        """Connect lazily to `url`; `name` is the connection's, for messages."""
        try:
            parsed = sa.make_url(url)
        except exc.ArgumentError:
            # The cause would quote the URL with its password.
            msg = (
                f"connection {name!r}: its app setting holds no database URL; "
                "write dialect+driver://user:password@host/database"
            )
            raise ConfigurationError(msg) from None
        if parsed.get_backend_name() not in _INSERTS:
            msg = (
                f"connection {name!r}: databases of kind {parsed.get_backend_name()!r} are not "
                f"supported; supported are {', '.join(_INSERTS)}"
            )
            raise ConfigurationError(msg)
        return cls(_engine(parsed, pool_size))

    def retrieve_changes(
        self, mapping: Mapping, job: Job, watermark: WatermarkValue
    ) -> Iterator[QueueMessage]:
        """Read pages in the order of cursor and key; each page starts behind the last row read."""
        with _translated(mapping.source_entity):
            table = self._reflect(mapping.source_entity)
            reading = _Reading.of(table, mapping, job, self._page_size)
            condition = reading.from_watermark(watermark)
            while True:
                with self._engine.connect() as connection:
                    rows = connection.execute(reading.page(condition)).mappings().all()
                for row in rows:
                    yield self.serialize(row, mapping, job)  # type: ignore[arg-type] # keys are names
                if len(rows) < self._page_size:
                    return
                condition = reading.behind(rows[-1])

    def upsert(self, message: QueueMessage, mapping: Mapping) -> None:
        """Insert or update in one statement."""
        with _translated(mapping.target_entity):
            upsert = self._upsert_of(mapping)
            values = upsert.parameters(message)
            with self._engine.connect() as connection:
                connection.execute(upsert.statement, values)

    def _upsert_of(self, mapping: Mapping) -> "_Upsert":
        if mapping.name not in self._upserts:
            with self._reflecting:
                if mapping.name not in self._upserts:
                    table = self._reflect(mapping.target_entity)
                    insert = _INSERTS[self._engine.dialect.name]
                    self._upserts[mapping.name] = _Upsert.of(insert(table), table, mapping)
        return self._upserts[mapping.name]

    def _reflect(self, entity: str) -> sa.Table:
        """Read a table's columns from the database; `entity` is `table` or `schema.table`."""
        schema, _, name = entity.rpartition(".")
        return sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=self._engine)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The statement that reads one page."""

    select: sa.Select[Any]
    cursor: sa.Column[Any]
    order: tuple[sa.Column[Any], ...]

    @classmethod
    def of(cls, table: sa.Table, mapping: Mapping, job: Job, page_size: int) -> Self:
        keys = [_column(table, pair.source) for pair in mapping.keys]
        fields = [_column(table, pair.source) for pair in mapping.fields]
        cursor = _column(table, job.watermark.field)
        order = tuple(dict.fromkeys((cursor, *keys)))
        columns = dict.fromkeys((*order, *fields))
        select = sa.select(*columns).where(cursor.is_not(None))
        return cls(select.order_by(*order).limit(page_size), cursor, order)

    def from_watermark(self, watermark: WatermarkValue) -> sa.ColumnElement[bool]:
        if not watermark.text:
            return sa.true()
        convert = from_text(self.cursor.type.python_type) or self.cursor.type.python_type
        start: sa.ColumnElement[bool] = self.cursor >= convert(watermark.text)
        return start

    def behind(self, row: sa.RowMapping) -> sa.ColumnElement[bool]:
        return sa.tuple_(*self.order) > sa.tuple_(*(row[column] for column in self.order))

    def page(self, condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
        return self.select.where(condition)


@dataclass(frozen=True, slots=True)
class _Upsert:
    """The statement of one mapping, and what turns a message's texts into its column types."""

    statement: sa.Executable
    conversions: dict[str, Callable[[str], Any]]

    @classmethod
    def of(cls, insert: Any, table: sa.Table, mapping: Mapping) -> Self:  # noqa: ANN401 - two dialects
        keys = [_column(table, pair.target) for pair in mapping.keys]
        fields = [_column(table, pair.target) for pair in mapping.fields]
        insert = insert.values({c.name: sa.bindparam(c.name) for c in (*keys, *fields)})
        changed = {column.name: insert.excluded[column.name] for column in fields}
        if changed:
            statement = insert.on_conflict_do_update(index_elements=keys, set_=changed)
        else:
            statement = insert.on_conflict_do_nothing(index_elements=keys)
        conversions = {
            column.name: convert
            for column in (*keys, *fields)
            if (convert := from_text(column.type.python_type))
        }
        return cls(statement, conversions)

    def parameters(self, message: QueueMessage) -> dict[str, Any]:
        values: dict[str, Any] = {**message.keys, **message.fields}
        for name, convert in self.conversions.items():
            value: Value = values[name]
            if isinstance(value, str):
                values[name] = _converted(name, value, convert)
        return values


def _converted(column: str, text: str, convert: Callable[[str], Any]) -> object:
    try:
        return convert(text)
    except (ValueError, ArithmeticError):
        # The value itself stays out of the message: it may be personal.
        msg = f"column {column!r} cannot hold the value; change the mapping or correct the source"
        raise RejectedError(msg) from None


def _column(table: sa.Table, name: str) -> sa.Column[Any]:
    try:
        return table.c[name]
    except KeyError:
        msg = (
            f"table {table.fullname!r} has no column {name!r}; it has "
            f"{', '.join(sorted(table.c.keys()))}; correct the mapping or the job"
        )
        raise ConfigurationError(msg) from None


def _engine(url: sa.URL, pool_size: int) -> sa.Engine:
    arguments: dict[str, Any] = {}
    if url.get_backend_name() == "postgresql":
        arguments = {
            "connect_timeout": _CONNECT_TIMEOUT_SECONDS,
            "options": f"-c statement_timeout={_STATEMENT_TIMEOUT_SECONDS}s",
        }
    return sa.create_engine(
        url,
        connect_args=arguments,
        hide_parameters=True,  # errors are logged, and parameters are people's data
        isolation_level="AUTOCOMMIT",  # each call is one statement
        pool_pre_ping=False,  # a connection that was lost is an ordinary error: the message returns
        pool_size=pool_size,
    )


@contextmanager
def _translated(entity: str) -> Iterator[None]:
    """Turn every error of the database into one of ours."""
    try:
        yield
    except exc.NoSuchTableError as error:
        msg = f"table {entity!r} does not exist; correct the mapping, or create the table"
        raise ConfigurationError(msg) from error
    except (exc.IntegrityError, exc.DataError) as error:
        # The cause would go on to quote the record.
        raise RejectedError(_reason(entity, error)) from None
    except exc.ProgrammingError as error:
        raise ConfigurationError(_reason(entity, error)) from error
    except exc.DBAPIError as error:
        raise UnavailableError(_reason(entity, error)) from error
    except exc.TimeoutError as error:
        msg = f"table {entity!r}: no free database connection in time"
        raise UnavailableError(msg) from error


def _reason(entity: str, error: exc.DBAPIError) -> str:
    """Return the database's own reason, without the lines that quote the record."""
    first_line = str(error.orig).partition("\n")[0]
    return f"table {entity!r}: {first_line}"
