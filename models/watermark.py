"""The watermark: how far a job has read its source, kept as the source's own text."""

import logging
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from pydantic import WithJsonSchema

from delivery.errors import ConfigurationError
from models.document import Document, Name

_LOGGER = logging.getLogger(__name__)


class WatermarkType(StrEnum):
    """How two values of a cursor compare."""

    DATE = "date"
    DATETIME = "datetime"
    INTEGER = "integer"
    TEXT = "text"
    #: An opaque mark of the source's own, such as a delta token: a different one is a later one.
    TOKEN = "token"  # noqa: S105 - not a secret
    #: What cannot be compared: the stored value stays as it is.
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, name: str) -> "WatermarkType":
        """Read a type's name, trimmed and without regard to case."""
        return _KINDS.get(name.strip().lower(), cls.UNKNOWN)


_DEFAULTS = {
    WatermarkType.DATE: "0001-01-01",
    WatermarkType.DATETIME: "0001-01-01T00:00:00Z",
}

_KINDS = {kind.value: kind for kind in WatermarkType if kind is not WatermarkType.UNKNOWN}


class Cursor(Document):
    """What orders a source's changes in time, and how its values compare."""

    field: Name
    """The source field. Records in which it is null are never read."""

    type: Annotated[str, WithJsonSchema({"type": "string", "enum": list(_KINDS)})]
    """Must fit the field; `token` is for opaque marks of the source.

    Row versions of SQL Server are `text`. Times that are texts, as in SQLite, must all be spelt
    alike, since the database sorts them as texts. `validate` refuses an unknown type; the app
    only warns of it, keeps the watermark, and sends everything behind it at every run.
    """

    delay: timedelta = timedelta()
    """Changes younger than this wait; an ISO 8601 duration such as `PT30S`, for times only.

    A change gets its time when it is written and becomes visible when it is committed; what was
    committed meanwhile has moved the watermark past it. Set it longer than the longest
    transaction at the source.
    """


_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_SECONDS_PER_DAY = 86_400
_TICKS_PER_SECOND = 10_000_000
_SEVENTH = 7
#: 2026-11-30T10:00:00 is what an offset, or a fraction and an offset, stands behind.
_WITHOUT_OFFSET = 19
_SEPARATOR = 10
_DIGITS = ".0123456789"


@dataclass(frozen=True)
class WatermarkValue:
    """A cursor value: the text as the source wrote it, compared by its type.

    Text, because Table storage's DateTime begins in 1601 and Python's datetime cuts the seventh
    fraction digit that .NET writes. An empty text means "from the beginning".
    """

    type: WatermarkType
    text: str

    @classmethod
    def initialize(cls, type_name: str, stored: str | None) -> "WatermarkValue":
        """Return the stored value, or the type's default where nothing is stored.

        The type is trimmed and read without regard to case. An unknown one keeps the stored value,
        never advances, and is warned of.
        """
        kind = WatermarkType.of(type_name)
        if kind is WatermarkType.UNKNOWN:
            known = ", ".join(_KINDS)
            _LOGGER.warning("watermark type %r is unknown; use one of %s", type_name, known)
        return cls(kind, stored or _DEFAULTS.get(kind, ""))

    def advance(self, change_tracker: str) -> "WatermarkValue":
        """Return the later of this value and `change_tracker`."""
        other = WatermarkValue(self.type, change_tracker)
        return other if other.is_after(self) else self

    def is_after(self, other: "WatermarkValue") -> bool:
        """Compare by the type; raise ConfigurationError where a text is not of that type."""
        match self.type:
            case WatermarkType.UNKNOWN:
                return False
            case WatermarkType.TOKEN:
                return self.text != other.text
            case WatermarkType.DATETIME if _spelt_alike(self.text, other.text):
                return self.text > other.text
            case _:
                return _order_of(self) > _order_of(other)

    def seconds_before(self, moment: datetime) -> float | None:
        """Return how long before `moment` this time is, negative where later; None for no time."""
        if self.type not in (WatermarkType.DATE, WatermarkType.DATETIME) or not self.text:
            return None
        try:
            return (_ticks(moment.isoformat()) - _ticks(self.text)) / _TICKS_PER_SECOND
        except ValueError:
            return None

    def is_same(self, other: "WatermarkValue") -> bool:
        """Tell whether both texts spell one value; unknown types have no values to compare."""
        return self.type is not WatermarkType.UNKNOWN and _order_of(self) == _order_of(other)

    @cached_property
    def order(self) -> tuple[int, int | str]:
        """What values of one type compare by; the beginning comes first."""
        if not self.text:
            return (0, 0)
        match self.type:
            case WatermarkType.DATE:
                return (1, date.fromisoformat(self.text).toordinal())
            case WatermarkType.DATETIME:
                return (1, _ticks(self.text))
            case WatermarkType.INTEGER:
                return (1, int(self.text))
            case WatermarkType.TEXT | WatermarkType.TOKEN | WatermarkType.UNKNOWN:
                return (1, self.text)


def _order_of(value: WatermarkValue) -> tuple[int, int | str]:
    try:
        return value.order
    except ValueError:
        msg = (
            f"the watermark type {value.type} does not fit the values of its field; correct the "
            "job's watermark.type"
        )
        raise ConfigurationError(msg) from None


def _spelt_alike(one: str, other: str) -> bool:
    """Tell whether two times have the same digits in the same places, and the same offset.

    Then their texts compare as they do. Sources spell their times alike, and there are millions.
    """
    return (
        len(one) == len(other) > _WITHOUT_OFFSET
        and one[_WITHOUT_OFFSET:].lstrip(_DIGITS) == other[_WITHOUT_OFFSET:].lstrip(_DIGITS)
        and one[_SEPARATOR] == other[_SEPARATOR]
    )


def _ticks(text: str) -> int:
    """Return 100-nanosecond ticks since year 1, UTC; a time without offset is UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # A difference, because year 1 with a positive offset lies before what UTC can hold.
    since = moment - _BEGINNING
    seconds = since.days * _SECONDS_PER_DAY + since.seconds
    return seconds * _TICKS_PER_SECOND + since.microseconds * 10 + _seventh_digit(text)


def _seventh_digit(text: str) -> int:
    """Return the fraction digit that Python's datetime leaves out and .NET writes."""
    place = text.find(".") + _SEVENTH
    return int(text[place]) if place >= _SEVENTH and text[place : place + 1].isdigit() else 0
