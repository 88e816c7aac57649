"""Between a column's type and the values of queue messages, filters and watermarks."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import mssql

from models.values import from_text, to_value

Columns = tuple[sa.Column[Any], ...]

_KNOWN = {bool, bytes, date, datetime, Decimal, float, int, str, time, UUID}


def python_type(target: sa.Column[Any]) -> type:
    """Return the type of the column's values; text where the dialect names none."""
    try:
        return target.type.python_type
    except NotImplementedError:
        return str


def readable(source: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return what to select: the column, as text where a queue message cannot hold its type."""
    if python_type(source) in _KNOWN:
        return source
    return sa.cast(source, sa.Text).label(source.name)


def writable(target: sa.Column[Any], name: str | None = None) -> sa.ColumnElement[Any]:
    """Return the parameter, which the database casts where we do not know its type.

    Without a name it is named like the column.
    """
    if _is_known(target):
        return sa.bindparam(name or target.name, type_=target.type)
    return sa.cast(sa.bindparam(name or target.name, type_=sa.Text), target.type)


def comparable(
    target: sa.Column[Any], dialect: str, name: str | None = None
) -> sa.ColumnElement[Any]:
    """Return the parameter, rounded as the column rounds what it is given."""
    if dialect == "sqlite":  # its columns round nothing, and its casts know no times
        return writable(target, name)
    return sa.cast(writable(target, name), target.type)


def typed_parameter(
    target: sa.Column[Any], name: str, dialect: sa.Dialect
) -> tuple[str, sa.BindParameter[Any]]:
    """Return the parameter as text and as itself, for where the database cannot tell its type.

    Texts and bytes are not cut to the column's length, so that the database refuses long ones.
    """
    parameter = sa.bindparam(name, type_=target.type if _is_known(target) else sa.Text())
    if isinstance(target.type, sa.String):
        return f":{name}", parameter
    kind = _UNCUT if python_type(target) is bytes else target.type
    return f"CAST(:{name} AS {dialect.type_compiler_instance.process(kind)})", parameter


_UNCUT = mssql.VARBINARY("max")  # type: ignore[no-untyped-call] # SQLAlchemy's own


def _is_known(target: sa.Column[Any]) -> bool:
    return python_type(target) in _KNOWN or isinstance(target.type, sa.JSON)


def to_column_value(target: sa.Column[Any], value: object) -> Any:  # noqa: ANN401 - the column's type
    """Return `value`, where it is a text, as the column's type; raise ValueError where it is none.

    A decimal that is none raises ArithmeticError, as Python's own conversion does.
    """
    if not isinstance(value, str):
        return value
    kind = python_type(target)
    if isinstance(target.type, sa.JSON):
        return orjson.loads(value)
    if kind is bytes and value.startswith("0x"):
        return bytes.fromhex(value.removeprefix("0x"))
    if kind is int:
        return int(value)
    convert = from_text(kind)
    converted = convert(value) if convert else value
    if isinstance(converted, datetime):
        return _with_or_without_zone(converted, with_zone=target.type.timezone)  # type: ignore[attr-defined] # a datetime type has it
    return converted


def to_tracker(cursor: object) -> str:
    """Return a cursor value as text; row versions, which are bytes, in hexadecimal."""
    return f"0x{cursor.hex()}" if isinstance(cursor, bytes) else str(to_value(cursor))


def _with_or_without_zone(moment: datetime, *, with_zone: bool) -> datetime:
    """Give the column what it holds; a time without zone is UTC, on both sides."""
    if with_zone:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # year 1 with a positive offset: before it there is nothing
        return datetime.min  # noqa: DTZ901 - the column has no zone
