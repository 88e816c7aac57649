"""One SQL database as a source and as a target."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import batched
from typing import Self

import sqlalchemy as sa

from connectors.base import ConnectorBase
from connectors.fields import Lookup, Resolution, resolutions
from connectors.sql.actions import invoke
from connectors.sql.deadlines import Limits
from connectors.sql.engines import open_engine
from connectors.sql.errors import may_come_of_a_changed_table, translated
from connectors.sql.lookup import SqlLookup
from connectors.sql.responses import Answer
from connectors.sql.source import Reading
from connectors.sql.tables import reflect
from connectors.sql.target import Write
from delivery.errors import ConfigurationError, DeliveryError, RejectedError, TransitiveError
from models.configuration import Response
from models.filter import Filter
from models.job import Job
from models.mapping import At, Mapping
from models.queue_message import JobActionType, QueueMessage
from models.values import Value
from models.watermark import WatermarkValue

#: Rows read with one statement.
PAGE_SIZE = 1_000

#: Records that are mapped, and whose references are looked up, together. Few enough that they are
#: still in the processor's cache when they are sent.
_MAPPED_AT_ONCE = 100

_LIMITS = Limits()

#: For the question whether the database is there. Whoever asks does not wait long.
_LIMITS_OF_A_CHECK = Limits(
    connecting=timedelta(seconds=3),
    statement=timedelta(seconds=3),
    call=timedelta(seconds=5),
    free_connection=timedelta(seconds=3),
)

#: What a statement depends on: table, action, keys, fields, guard.
_Kind = tuple[str, JobActionType, tuple[str, ...], tuple[str, ...], str | None]

#: What an answer depends on: response job, table, keys.
_AnswerKind = tuple[str, str, tuple[str, ...]]


class SqlConnector(ConnectorBase):
    """Safe for several threads; each call takes a connection of the pool.

    Every method raises `delivery.errors`.
    """

    can_stop_midway = True

    def __init__(
        self, engine: sa.Engine, *, checks: sa.Engine | None = None, page_size: int = PAGE_SIZE
    ) -> None:
        self._engine = engine
        self._checks = checks or engine
        self.page_size = page_size
        self._writes: dict[_Kind, Write] = {}
        self._answers: dict[_AnswerKind, Answer] = {}
        self._references = SqlLookup(engine)

    @classmethod
    def from_url(cls, name: str, url: str, *, pool_size: int, limits: Limits = _LIMITS) -> Self:
        """Connect lazily to `url`; `name` is the connection's, for messages."""
        return cls(
            open_engine(name, url, pool_size=pool_size, limits=limits),
            # Of its own: a check must not wait behind the calls that it asks about.
            checks=open_engine(name, url, pool_size=1, limits=_LIMITS_OF_A_CHECK),
        )

    def check(self) -> None:
        """Return where the database answers; raise a DeliveryError within seconds if not."""
        name = self._engine.url.database or ""
        with translated(name, kind="database"), self._checks.connect() as connection:
            connection.execute(sa.select(1))

    def retrieve_changes(
        self, mapping: Mapping, job: Job, watermark: WatermarkValue, condition: Filter | None
    ) -> Iterator[QueueMessage]:
        """Merge changed rows and tombstones, each read in the order of its cursor."""
        with translated(mapping.source_entity):
            serializer = self.serializer(mapping, job)
            reading = Reading(self._engine, mapping, job, serializer, self.page_size)
            changes = reading.changes(watermark, condition)
            for page in batched(changes, _MAPPED_AT_ONCE, strict=False):
                yield from serializer.serialize(page)

    def lookup(self) -> Lookup:
        """Look references up with one query a page."""
        return SqlLookup(self._engine)

    def upsert(
        self, message: QueueMessage, mapping: Mapping, job: Job, response: Response | None = None
    ) -> QueueMessage | None:
        """Insert or update; fields that the message lacks stay as they are."""
        entity = mapping.target_entity
        lacking = response.lacking(message) if response else ()
        with self._writing(entity, missing_reference=TransitiveError):
            message = self._resolved(message, mapping)
            write = self._write_for(message, entity, _guard(message, job))
            answer = response and self._answer_for(message, entity, response)
            with self._engine.connect() as connection:
                write.execute(connection, message)
                return answer.read(connection, message.keys, lacking) if answer else None

    def delete(self, message: QueueMessage, mapping: Mapping, job: Job) -> None:
        """Delete by key; a row that is gone already is fine."""
        entity = mapping.target_entity
        with self._writing(entity, missing_reference=RejectedError):
            message = self._resolved(message, mapping)
            write = self._write_for(message, entity, _guard(message, job))
            with self._engine.connect() as connection:
                write.execute(connection, message)

    def invoke_action(self, message: QueueMessage, job: Job) -> None:
        """Call a procedure or function; arguments by name, where the database has that."""
        if job.action is None:
            msg = (
                f"job {job.name!r} has no action any more, and this message asks for one; "
                "restore it, or remove the message"
            )
            raise ConfigurationError(msg)
        name = job.action.name
        with (
            translated(name, kind="routine", missing_reference=TransitiveError),
            self._engine.connect() as connection,
        ):
            invoke(connection, job.action, message)

    def close(self) -> None:
        """Close all connections that nobody uses."""
        self._engine.dispose()
        self._checks.dispose()

    @contextmanager
    def _writing(self, entity: str, missing_reference: type[DeliveryError]) -> Iterator[None]:
        with translated(entity, missing_reference=missing_reference):
            try:
                yield
            except Exception as error:
                if may_come_of_a_changed_table(error):
                    self._forget(entity)
                raise

    def _forget(self, entity: str) -> None:
        for kind in [kind for kind in list(self._writes) if kind[0] == entity]:
            self._writes.pop(kind, None)
        self._answers.clear()
        self._references = SqlLookup(self._engine)

    def _resolved(self, message: QueueMessage, mapping: Mapping) -> QueueMessage:
        """Replace references by what the records that they name hold."""
        if not mapping.resolvers:
            return message
        resolved = replace(message, keys={**message.keys}, fields={**message.fields})
        for resolution in resolutions(mapping, At.TARGET):
            part = resolved.keys if resolution.field in resolved.keys else resolved.fields
            key = resolution.key_of(part)
            if key is not None:
                part[resolution.field] = self._look_up(resolution, key)
            if part is resolved.keys and part[resolution.field] is None:
                raise _without_key(resolution)
        return resolved

    def _look_up(self, resolution: Resolution, key: Value) -> Value:
        reference = resolution.reference
        with translated(reference.entity):
            found = self._references.find(reference, {key})
        if key not in found and not resolution.null_if_absent:
            msg = (
                f"{resolution.where}: no record of {reference.entity!r} has this "
                f"{reference.key!r} yet"
            )
            raise TransitiveError(msg)
        value: Value = found.get(key)
        return value

    def _write_for(self, message: QueueMessage, entity: str, guard: str | None) -> Write:
        kind = (entity, message.action, (*message.keys,), (*message.fields,), guard)
        write = self._writes.get(kind)
        if write is None:
            # Threads that build the same at once do no harm, and none has to wait for another.
            table = reflect(self._engine, entity)
            build = Write.delete if message.action is JobActionType.DELETE else Write.upsert
            write = self._writes[kind] = build(self._engine.dialect, table, message, guard)
        return write

    def _answer_for(self, message: QueueMessage, entity: str, response: Response) -> Answer:
        kind = (response.job.name, entity, (*message.keys,))
        answer = self._answers.get(kind)
        if answer is None or not answer.is_of(response):
            table = reflect(self._engine, entity)
            keys = list(message.keys)
            answer = self._answers[kind] = Answer.of(response, table, keys, self.lookup())
        return answer


def _without_key(resolution: Resolution) -> TransitiveError:
    """Return what to raise for a key that is null, of which a database holds several."""
    reference = resolution.reference
    return TransitiveError(
        f"{resolution.where}: the record of {reference.entity!r} has no value yet in its field "
        f"{reference.value!r}, and a key needs one"
    )


def _guard(message: QueueMessage, job: Job) -> str | None:
    """Return the field that decides what is outdated, None where the message has no time."""
    if job.skip_outdated is None:
        return None
    is_deletion = message.action is JobActionType.DELETE
    time = message.change_tracker if is_deletion else message.fields.get(job.skip_outdated)
    return None if time in {None, ""} else job.skip_outdated
