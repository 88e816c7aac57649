"""Reads changes: pages in the order of the cursor, each beginning behind the last row read."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Record
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Self, cast

import sqlalchemy as sa

from connectors.serialization import Serializer, SourceChange
from connectors.sql.tables import column, reflect
from connectors.sql.types import readable, to_column_value, to_tracker
from delivery.errors import ConfigurationError
from models.deletions import DeletionFlag, Tombstones
from models.filter import All, AnyOf, Comparison, Filter, Operator
from models.job import Job
from models.mapping import Mapping
from models.queue_message import JobActionType
from models.watermark import Cursor, WatermarkValue

#: Databases that compare tuples, as (a, b) > (1, 2). The others get the comparison written out.
_WITH_TUPLES = {"postgresql", "sqlite", "mysql"}


@dataclass(frozen=True, slots=True)
class Names:
    """The columns that are read, by what for."""

    cursor: str
    keys: list[str]
    fields: list[str]


@dataclass(frozen=True, slots=True)
class Stream:
    """One table read in the order of its cursor, ties broken by its keys."""

    engine: sa.Engine
    table: sa.Table
    select: sa.Select[Any]
    cursor: sa.Column[Any]
    order: tuple[sa.Column[Any], ...]
    page_size: int

    @classmethod
    def of(cls, engine: sa.Engine, table: sa.Table, names: Names, page_size: int) -> Self:
        """Read the named columns of `table`; raise ConfigurationError where one is missing."""
        by = column(table, names.cursor)
        order = tuple(dict.fromkeys((by, *(column(table, key) for key in names.keys))))
        columns = dict.fromkeys((*order, *(column(table, name) for name in names.fields)))
        selected = [part if part in order else readable(part) for part in columns]
        # A row without a cursor value has no place in the order: it is not read.
        select = sa.select(*selected).where(by.is_not(None)).order_by(*order)
        return cls(engine, table, select, by, order, page_size)

    def newest(self, query: sa.Select[Any]) -> Any | None:  # noqa: ANN401 - the cursor's type
        """Return the highest cursor value that `query` reads now, None where it reads nothing."""
        last = query.with_only_columns(self.cursor).order_by(None).order_by(self.cursor.desc())
        with self.engine.connect() as connection:
            return connection.execute(last.limit(1)).scalar()

    def rows(self, query: sa.Select[Any], until: object) -> Iterator[Record[str, Any]]:
        """Yield what `query` reads, up to the cursor value `until`, page by page."""
        select = query.where(self.cursor <= until)
        page = select.limit(self.page_size)
        while True:
            with self.engine.connect() as connection:
                rows = connection.execute(page).mappings().all()
            for row in rows:
                # Its keys are columns too; ours are the names.
                yield cast("Record[str, Any]", row)
            if len(rows) < self.page_size:
                return
            values = [rows[-1][part] for part in self.order]
            behind = self.behind(values, self.engine.dialect.name)
            page = select.where(behind).limit(self.page_size)

    def query(
        self, watermark: WatermarkValue, cursor: Cursor, condition: Filter | None
    ) -> sa.Select[Any]:
        """Return what reads everything at once."""
        select = self.select
        if watermark.text:
            select = select.where(self.cursor >= self._to_column(watermark.text))
        if cursor.delay:
            now = datetime.now(UTC) - cursor.delay
            select = select.where(self.cursor <= self._to_column(now.isoformat()))
        if condition is not None:
            select = select.where(to_condition(condition, self.table))
        return select

    def behind(self, values: list[Any], dialect: str) -> sa.ColumnElement[bool]:
        """Return what holds for the rows behind the one with these values of the order."""
        if dialect in _WITH_TUPLES:
            return sa.tuple_(*self.order) > sa.tuple_(*values)
        return _written_out(self.order, values)

    def _to_column(self, text: str) -> object:
        try:
            return to_column_value(self.cursor, text)
        except (ValueError, ArithmeticError):
            msg = (
                f"the watermark {text!r} is no value of column {self.cursor.name!r} "
                f"({self.cursor.type}); correct or reset it"
            )
            raise ConfigurationError(msg) from None


def _written_out(columns: tuple[sa.Column[Any], ...], values: list[Any]) -> sa.ColumnElement[bool]:
    first: sa.ColumnElement[bool] = columns[0] > values[0]
    if len(columns) == 1:
        return first
    rest = _written_out(columns[1:], values[1:])
    return sa.or_(first, sa.and_(columns[0] == values[0], rest))


def to_condition(condition: Filter, table: sa.Table) -> sa.ColumnElement[bool]:
    """Turn a filter into SQL with bound parameters; raise ConfigurationError for unknown fields."""
    match condition:
        case All(all=parts):
            return sa.and_(*(to_condition(part, table) for part in parts))
        case AnyOf(any=parts):
            return sa.or_(*(to_condition(part, table) for part in parts))
        case Comparison(field=name, operator=operator, value=value):
            compared = column(table, name)
            if isinstance(value, tuple):
                operand: Any = [_operand(compared, part) for part in value]
            else:
                operand = _operand(compared, value)
            return _COMPARISONS[operator](compared, operand)


def _operand(field: sa.Column[Any], value: object) -> object:
    try:
        return to_column_value(field, value)
    except (ValueError, ArithmeticError):
        msg = f"filter: {value!r} is no value of field {field.name!r} ({field.type}); correct it"
        raise ConfigurationError(msg) from None


_COMPARISONS: dict[Operator, Callable[[sa.Column[Any], Any], sa.ColumnElement[bool]]] = {
    Operator.EQUALS: lambda field, value: field == value,
    Operator.NOT_EQUALS: lambda field, value: field != value,
    Operator.LESS: lambda field, value: field < value,
    Operator.LESS_OR_EQUAL: lambda field, value: field <= value,
    Operator.GREATER: lambda field, value: field > value,
    Operator.GREATER_OR_EQUAL: lambda field, value: field >= value,
    Operator.IN: lambda field, value: field.in_(value),
    Operator.IS_NULL: lambda field, _: field.is_(None),
    Operator.IS_NOT_NULL: lambda field, _: field.is_not(None),
}


class Reading:
    """All that one run reads: changed rows, and what says that rows are gone."""

    def __init__(
        self,
        engine: sa.Engine,
        mapping: Mapping,
        job: Job,
        serializer: Serializer,
        page_size: int,
    ) -> None:
        self._engine = engine
        self._mapping = mapping
        self._cursor = job.cursor
        self._serializer = serializer
        self._page_size = page_size

    def changes(
        self, watermark: WatermarkValue, condition: Filter | None
    ) -> Iterator[SourceChange]:
        """Yield changes in the order of the cursor, at one value what is there first."""
        parts = [self._changed_rows(watermark, condition)]
        if isinstance(self._mapping.deletions, Tombstones):
            parts.append(self._tombstones(self._mapping.deletions, watermark))
        newest = [part.stream.newest(part.query) for part in parts]
        known = [value for value in newest if value is not None]
        if not known:
            return iter(())
        # What is written from now on is left to the next run. A run that followed its writers
        # would pass a cursor value while they still write at it, and never come back.
        until = max(known)
        pairs = heapq.merge(*(part.changes(until) for part in parts), key=itemgetter(0))
        return map(itemgetter(1), pairs) if len(parts) == 1 else self._without_replaced(pairs)

    def _without_replaced(
        self, pairs: Iterable[tuple[Any, SourceChange]]
    ) -> Iterator[SourceChange]:
        """Leave out what is gone at a cursor value at which it is there too.

        It was deleted and created again at that value, as when a table is filled anew in one
        transaction: it exists. To say both would let the order decide, which no queue keeps.
        """
        keys = [pair.source for pair in self._mapping.keys]
        value, present = None, set[tuple[str, ...]]()
        for cursor, change in pairs:
            if cursor != value:
                value, present = cursor, set()
            key = tuple(str(change.record[name]) for name in keys)
            if change.action is not JobActionType.DELETE:
                present.add(key)
            elif key in present:
                continue
            yield change

    def _changed_rows(self, watermark: WatermarkValue, condition: Filter | None) -> "_Part":
        deletions = self._mapping.deletions
        flag = deletions if isinstance(deletions, DeletionFlag) else None
        names = self._serializer.source_fields(JobActionType.NEW_UPDATE)
        if flag is not None:
            names.append(flag.field)
        stream = self._stream(self._mapping.source_entity, self._cursor.field, names)
        query = stream.query(watermark, self._cursor, condition)
        return _Part(stream, query, self._cursor.field, JobActionType.NEW_UPDATE, flag)

    def _tombstones(self, tombstones: Tombstones, watermark: WatermarkValue) -> "_Part":
        names = self._serializer.source_fields(JobActionType.DELETE)
        stream = self._stream(tombstones.entity, tombstones.cursor, names)
        query = stream.query(watermark, self._cursor, None)
        return _Part(stream, query, tombstones.cursor, JobActionType.DELETE)

    def _stream(self, entity: str, cursor: str, fields: list[str]) -> Stream:
        keys = [pair.source for pair in self._mapping.keys]
        table = reflect(self._engine, entity)
        return Stream.of(self._engine, table, Names(cursor, keys, fields), self._page_size)


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the tables of a run, and what its rows mean."""

    stream: Stream
    query: sa.Select[Any]
    cursor: str
    action: JobActionType
    flag: DeletionFlag | None = None

    def changes(self, until: object) -> Iterator[tuple[Any, SourceChange]]:
        """Yield changes with their cursor values, up to `until`."""
        for row in self.stream.rows(self.query, until):
            gone = self.flag is not None and row[self.flag.field] in self.flag.values
            action = JobActionType.DELETE if gone else self.action
            cursor = row[self.cursor]
            yield cursor, SourceChange(action, row, to_tracker(cursor))
