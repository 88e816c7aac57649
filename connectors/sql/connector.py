"""One SQL database as a source and as a target."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import batched
from threading import Lock
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy import exc

from connectors.base import ConnectorBase
from connectors.fields import Lookup, resolutions
from connectors.sql.errors import reflect, translated
from connectors.sql.lookup import SqlLookup
from connectors.sql.source import Reading
from connectors.sql.target import Write
from delivery.errors import ConfigurationError, TransitiveError
from models.filter import Filter
from models.job import Job
from models.mapping import At, Mapping
from models.queue_message import JobActionType, QueueMessage
from models.watermark import WatermarkValue

#: Rows read with one statement.
PAGE_SIZE = 1_000

#: Records that are mapped, and whose references are looked up, together. Few enough that they are
#: still in the processor's cache when they are sent.
_MAPPED_AT_ONCE = 100

#: MySQL and SQL Server as sources only.
_SUPPORTED = ("postgresql", "sqlite", "mysql", "mssql")

_CONNECT_TIMEOUT_SECONDS = 10
_STATEMENT_TIMEOUT_SECONDS = 60


#: What a statement depends on: table, action, keys, fields.
_Kind = tuple[str, JobActionType, tuple[str, ...], tuple[str, ...]]


class SqlConnector(ConnectorBase):
    """Safe for several threads; each call takes a connection of the pool.

    Every method raises `delivery.errors`.
    """

    can_stop_midway = True

    def __init__(self, engine: sa.Engine, *, page_size: int = PAGE_SIZE) -> None:
        self._engine = engine
        self._page_size = page_size
        self._writes: dict[_Kind, Write] = {}
        self._building = Lock()

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
        if parsed.get_backend_name() not in _SUPPORTED:
            msg = (
                f"connection {name!r}: databases of kind {parsed.get_backend_name()!r} are not "
                f"supported; supported are {', '.join(_SUPPORTED)}"
            )
            raise ConfigurationError(msg)
        try:
            return cls(_engine(parsed, pool_size))
        except ModuleNotFoundError as error:
            msg = (
                f"connection {name!r}: the driver {error.name!r} is not installed; "
                "add it to requirements.txt"
            )
            raise ConfigurationError(msg) from error

    def retrieve_changes(
        self, mapping: Mapping, job: Job, watermark: WatermarkValue, condition: Filter | None
    ) -> Iterator[QueueMessage]:
        """Merge changed rows and tombstones, each read in the order of its cursor."""
        with translated(mapping.source_entity):
            serializer = self.serializer(mapping, job)
            reading = Reading(self._engine, mapping, job, serializer, self._page_size)
            changes = reading.changes(watermark, condition)
            for page in batched(changes, _MAPPED_AT_ONCE, strict=False):
                yield from serializer.serialize(page)

    def lookup(self) -> Lookup:
        """Look references up with one query a page."""
        return SqlLookup(self._engine)

    def upsert(self, message: QueueMessage, mapping: Mapping) -> None:
        """Insert or update in one statement; fields that the message lacks stay as they are."""
        self._write(self._resolved(message, mapping), mapping)

    def delete(self, message: QueueMessage, mapping: Mapping) -> None:
        """Delete by key; a row that is gone already is fine."""
        self._write(message, mapping)

    def _resolved(self, message: QueueMessage, mapping: Mapping) -> QueueMessage:
        """Replace references by what the records that they name hold."""
        if not mapping.resolvers:
            return message
        fields = dict(message.fields)
        for resolution in resolutions(mapping, At.TARGET):
            key = resolution.key_of(fields)
            if key is None:
                continue
            with translated(resolution.reference.entity):
                found = self.lookup().find(resolution.reference, {key})
            if key not in found and not resolution.null_if_absent:
                msg = (
                    f"{resolution.where}: no record of {resolution.reference.entity!r} has this "
                    f"{resolution.reference.key!r} yet"
                )
                raise TransitiveError(msg)
            fields[resolution.field] = found.get(key)
        return replace(message, fields=fields)

    def _write(self, message: QueueMessage, mapping: Mapping) -> None:
        try:
            with translated(mapping.target_entity):
                write = self._write_for(message, mapping)
                parameters = write.parameters({**message.keys, **message.fields})
                with self._engine.connect() as connection:
                    connection.execute(write.statement, parameters)
        except ConfigurationError:
            # The table is not what it was when the statements were built.
            self._writes.clear()
            raise

    def _write_for(self, message: QueueMessage, mapping: Mapping) -> Write:
        kind = (mapping.target_entity, message.action, (*message.keys,), (*message.fields,))
        write = self._writes.get(kind)
        if write is None:
            with self._building:
                write = self._writes[kind] = self._build(message, mapping)
        return write

    def _build(self, message: QueueMessage, mapping: Mapping) -> Write:
        table = reflect(self._engine, mapping.target_entity)
        if message.action is JobActionType.DELETE:
            return Write.delete(table, list(message.keys))
        fields = list(message.fields)
        return Write.upsert(self._engine.dialect.name, table, list(message.keys), fields)


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
